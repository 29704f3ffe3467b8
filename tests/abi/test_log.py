"""The log in CANN's layout: what appears where, at which level, and what becomes of trouble."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

LOAD = """
import ctypes, os, signal, sys, time
from softnpu import layout
acl = ctypes.CDLL(str(layout.lib_dir() / "libascendcl.so"))
acl.aclInit(None)
acl.aclrtSetDevice(0)
def note(level, text):
    acl.aclAppLog(level, b"train", b"/home/me/model.cpp", 12, b"%s", text)
"""
CAPTURE = (
    LOAD
    + """
stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
acl.aclrtCreateStream(ctypes.byref(stream))
assert acl.aclmdlRICaptureBegin(stream, 2) == 0
assert acl.aclmdlRICaptureEnd(stream, ctypes.byref(graph)) == 0
for _ in range(3):
    assert acl.aclmdlRIExecuteAsync(graph, stream) == 0
assert acl.aclrtSynchronizeStream(stream) == 0
"""
)
LINE = re.compile(
    r"\[(DEBUG|INFO|WARNING|ERROR)\] (RUNTIME|APP|OP)\((\d+),[^)]+\)"
    r":\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} \[[^]]+\]\d+ .+"
)


def lines(root: Path, kind: str = "debug") -> list[str]:
    files = sorted(root.glob(f"{kind}/plog/plog-*.log"))
    return [line for file in files for line in file.read_text().splitlines()]


def test_replays_are_found_as_on_a_device(run_python: RunPython, tmp_path: Path) -> None:
    done = run_python(
        CAPTURE,
        ASCEND_PROCESS_LOG_PATH="logs",
        ASCEND_GLOBAL_LOG_LEVEL="1",
        ASCEND_HOST_LOG_FILE_NUM="1000",
    )
    assert done.returncode == 0, done.stderr
    found = [line for line in lines(tmp_path / "logs") if "capture model" in line]
    assert all(LINE.fullmatch(line) for line in found)
    actions = [re.search(r"capture model (\w+), model_id=(\d+)", line) for line in found]
    assert [m and m.groups() for m in actions] == [
        ("begin", "1"),
        ("end", "1"),
        *[("execute", "1")] * 3,
    ]
    name = next((tmp_path / "logs" / "debug" / "plog").iterdir()).name
    assert re.fullmatch(r"plog-\d+_\d{17}\.log", name)


def test_run_log_says_what_ran(run_python: RunPython, tmp_path: Path) -> None:
    run_python(LOAD + "acl.aclFinalize()", ASCEND_PROCESS_LOG_PATH="logs", SOFTNPU_SEED="5")
    first, last = lines(tmp_path / "logs", "run")
    assert "init: soc=Ascend910B3 devices=2" in first and "seed=5" in first
    assert last.endswith("finalize")


def test_quiet_program_leaves_nothing(run_python: RunPython, tmp_path: Path) -> None:
    run_python(CAPTURE)
    assert not (tmp_path / "ascend").exists()


def test_errors_are_kept_under_home(run_python: RunPython, tmp_path: Path) -> None:
    run_python(LOAD + "acl.aclrtSetDevice(99)")
    (line,) = lines(tmp_path / "ascend" / "log")
    assert LINE.fullmatch(line)
    assert "aclrtSetDevice: there is no device 99" in line and "(107001)" in line


@pytest.mark.parametrize(("level", "count"), [("0", 4), ("1", 3), ("2", 2), ("3", 1), ("4", 0)])
def test_levels(run_python: RunPython, tmp_path: Path, level: str, count: int) -> None:
    run_python(
        LOAD + "for level in range(4): note(level, b'seen')",
        ASCEND_PROCESS_LOG_PATH="logs",
        ASCEND_GLOBAL_LOG_LEVEL=level,
    )
    seen = [line for line in lines(tmp_path / "logs") if "seen" in line]
    assert len(seen) == count
    assert all(
        "APP" in line and "[model.cpp:12]" in line and "train: seen" in line for line in seen
    )


def test_unwritable_folder_costs_the_log_only(run_python: RunPython, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_python(
        CAPTURE, ASCEND_PROCESS_LOG_PATH=str(tmp_path / "file"), ASCEND_GLOBAL_LOG_LEVEL="1"
    )
    assert done.returncode == 0
    warnings = [line for line in done.stderr.splitlines() if "cannot write the log" in line]
    assert len(warnings) == 2  # one for each folder
    assert all("ASCEND_PROCESS_LOG_PATH" in line for line in warnings)


def test_standard_output_instead(run_python: RunPython, tmp_path: Path) -> None:
    done = run_python(
        LOAD + "note(3, b'seen')",
        ASCEND_PROCESS_LOG_PATH="logs",
        ASCEND_SLOG_PRINT_TO_STDOUT="1",
    )
    assert "seen" in done.stdout
    assert not (tmp_path / "logs").exists()


def test_only_so_many_files_are_kept(run_python: RunPython, tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "debug" / "plog"
    folder.mkdir(parents=True)
    for i in range(5):
        old = folder / f"plog-{i}_20200101000000000.log"
        old.touch()
        os.utime(old, (i, i))
    (folder / "other.txt").touch()
    run_python(
        LOAD + "note(3, b'seen')", ASCEND_PROCESS_LOG_PATH="logs", ASCEND_HOST_LOG_FILE_NUM="3"
    )
    kept = sorted(p.name for p in folder.glob("plog-*"))
    assert len(kept) == 3
    assert {"plog-3_20200101000000000.log", "plog-4_20200101000000000.log"} <= set(kept)
    assert (folder / "other.txt").exists()


def test_large_files_are_continued_in_new_ones(run_python: RunPython, tmp_path: Path) -> None:
    run_python(
        LOAD + "for _ in range(13000): note(1, b'x' * 1900)",
        ASCEND_PROCESS_LOG_PATH="logs",
        ASCEND_GLOBAL_LOG_LEVEL="1",
    )
    files = list((tmp_path / "logs" / "debug" / "plog").iterdir())
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) > 24 << 20
    assert all(file.stat().st_size < 21 << 20 for file in files)


@pytest.mark.parametrize("pause", [0, 1.5])
def test_killed_process_leaves_its_log(run_python: RunPython, tmp_path: Path, pause: float) -> None:
    run_python(
        LOAD + "note(1, b'before'); note(3, b'error')\n"
        "note(1, b'after')\n"
        f"time.sleep({pause}); os.kill(os.getpid(), signal.SIGKILL)",
        ASCEND_PROCESS_LOG_PATH="logs",
        ASCEND_GLOBAL_LOG_LEVEL="1",
    )
    text = "\n".join(lines(tmp_path / "logs"))
    assert "before" in text and "error" in text  # an error writes what came before it
    assert ("after" in text) == (pause > 0)  # the rest is written within a second or so


def test_forked_process_writes_a_file_of_its_own(run_python: RunPython, tmp_path: Path) -> None:
    run_python(
        LOAD + "note(1, b'parent')\n"
        "child = os.fork()\n"
        "note(1, b'both')\n"
        "if child: os.waitpid(child, 0)",
        ASCEND_PROCESS_LOG_PATH="logs",
        ASCEND_GLOBAL_LOG_LEVEL="1",
    )
    texts = sorted(f.read_text() for f in (tmp_path / "logs" / "debug" / "plog").iterdir())
    assert len(texts) == 2
    assert sorted(text.count("both") for text in texts) == [1, 1]
    assert sorted(text.count("parent") for text in texts) == [0, 1]


def test_channels_on_standard_error(run_python: RunPython, tmp_path: Path) -> None:
    done = run_python(CAPTURE, SOFTNPU_LOG="graph")
    assert done.stderr.count("softnpu graph: capture model execute") == 3
    assert not (tmp_path / "ascend").exists()
