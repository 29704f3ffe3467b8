"""What is illegal while a stream captures, as a user of torch_npu meets it.

A program (illegal_program.py) makes every mistake and goes on: without torch_npu's task queue, with
it, and with ASCEND_LAUNCH_BLOCKING. With the task queue only those mistakes are made that the
calling thread notices: after an error in its queue thread torch_npu launches nothing more, on a
real device too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from softnpu import layout

PROGRAM = Path(__file__).with_name("illegal_program.py")
MODES = {
    "no queue": {"TASK_QUEUE_ENABLE": "0"},
    "queue": {"TASK_QUEUE_ENABLE": "1"},
    "blocking": {"ASCEND_LAUNCH_BLOCKING": "1"},
}
# Mistake -> code where it is made, code at the end of the capture, words of the message.
NOTICED_BY_CALLER: dict[str, tuple[str | None, str | None, str]] = {
    "item": ("107027", None, "Not allowed to synchronize stream"),
    "synchronize_device": ("107027", None, "Not allowed to synchronize the device"),
    "synchronize_stream": ("107027", None, "Not allowed to synchronize stream"),
    "query_stream": ("107027", None, "Not allowed to query stream"),
    "query_event": ("107028", None, "recorded inside the capture of graph"),
    "synchronize_event": ("107028", None, "recorded inside the capture of graph"),
    "elapsed_time": ("107028", None, "recorded inside the capture of graph"),
    "replay_another_graph": ("107027", None, "Not allowed to replay graph"),
    "capture_again": ("107027", None, "End that capture first"),
    "copy_in_another_thread": ("107030", None, "aclrtMemcpy is refused while graph"),
    # torch_npu takes a refused end for the end: the second one ends the capture, and torch_npu
    # complains of its own count.
    "end_in_another_thread": ("107038", "num_active_captures_ > 0", "must end in the thread"),
    "group_begins_twice": ("107033", "507903", "A task group is open already on stream"),
    "group_is_left_open": (None, "107033", "A task group is still open on stream"),
    "unjoined_fork": (None, "107025", "was forked into the capture of graph"),
    # To the runtime, torch_npu's default stream is a stream like any other.
    "default_stream_joins": (None, "107025", "was forked into the capture of graph"),
}
NOTICED_BY_QUEUE: dict[str, tuple[str | None, str | None, str]] = {
    "copy_of_pageable_memory": ("107041", None, "the host memory is not pinned"),
    "wait_for_an_event_of_before": ("107024", "507903", "was not recorded in this capture"),
    "captures_meet": ("107032", "507903", "two captures can't be merged"),
    # An aclnn function has a code of its own for errors of the runtime, and shows the runtime's.
    "submit_inside_a_group": ("361001", "507903", "error code of the runtime: 107034"),
}


def start_program(
    names: list[str], variables: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    environment = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("ASCEND_", "SOFTNPU_", "LD_LIBRARY_PATH", "TASK_QUEUE"))
    }
    return subprocess.run(
        [sys.executable, "-m", "softnpu", "run", "-q", str(PROGRAM), "--names", *names],
        env={**environment, "PYTHONPATH": str(layout.package_dir().parent), **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def run_program(names: list[str], variables: dict[str, str]) -> dict[str, Any]:
    done = start_program(names, variables)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


@pytest.mark.parametrize("mode", MODES)
def test_every_mistake_has_its_code_and_the_next_capture_works(mode: str) -> None:
    expected = dict(NOTICED_BY_CALLER)
    if mode != "queue":
        expected |= NOTICED_BY_QUEUE
    results = run_program(list(expected), MODES[mode])
    for name, (raised, ended, words) in expected.items():
        result = results[name]
        shown = f"{mode}, {name}: {result}"
        for code, text in ((raised, result["raised"]), (ended, result["ended"])):
            assert (code is None) == (text is None), shown
            assert code is None or code in text, shown
        first = result["raised"] or result["ended"]
        assert words in first, shown
        # The line of the program that made the mistake; the end's own where only that noticed it.
        assert f"[{PROGRAM}:" in first, shown
        assert result["raised"] is None or f" in {name}]" in first or "thread" in name, shown
        assert result["next_works"], shown
        # torch_npu gives the pool back when the capture has ended well, else it keeps it.
        assert ended is not None or result["kept_bytes"] == 0, shown


@pytest.mark.parametrize("name", NOTICED_BY_QUEUE)
def test_mistake_that_torch_npus_queue_thread_notices(name: str) -> None:
    """The program ends with the cause: nothing that it launches afterwards would run."""
    code, _, words = NOTICED_BY_QUEUE[name]
    done = start_program([name], MODES["queue"])
    assert done.returncode != 0
    error = done.stderr[done.stderr.rindex("RuntimeError") :]
    assert code is not None and words in error, error
    assert "107" in error and (code == "361001" or f"error code {code}" in error), error
    assert "launches nothing more" in error, error


def test_task_queue_mode_2_is_refused_by_torch_npu() -> None:
    source = (
        "import torch, torch_npu\n"
        "x = torch.ones(4, device='npu') + 1\n"
        "try:\n"
        "    with torch.npu.graph(torch.npu.NPUGraph()):\n"
        "        x + 1\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
        "print(x.tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "softnpu", "run", "-q", "--", sys.executable, "-c", source],
        env={**os.environ, "TASK_QUEUE_ENABLE": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "TASK_QUEUE_ENABLE" in done.stdout, done.stdout + done.stderr
    assert "[2.0, 2.0, 2.0, 2.0]" in done.stdout
