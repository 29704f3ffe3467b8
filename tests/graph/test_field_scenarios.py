"""Faults that users of graphs met on NPUs, each as they met it, and the form that works.

VA is vllm-project/vllm-ascend. What ends a process runs in field_program.py.
"""

import ctypes
import gc
import inspect
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_npu._C import _weak_ref_tensor

from softnpu import layout

PROGRAM = Path(__file__).with_name("field_program.py")
MEGABYTE = 1 << 20
RELAXED = 2
WAITS_FOR_AN_UPDATE = (
    r"error code is 107020\n(.|\n)*Nothing can run any more: stream \d+ of device 0 stands at the "
    r"replay of graph 1, which waits for the value at 0x\w+ to be == 1 \(it is 0\)"
)


def run_program(*names: str, **variables: str) -> dict[str, Any]:
    environment = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("ASCEND_", "SOFTNPU_", "LD_LIBRARY_PATH", "TASK_QUEUE"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "softnpu", "run", "-q", str(PROGRAM), *names],
        env={**environment, "PYTHONPATH": str(layout.package_dir().parent), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    """Every case that needs no setting of its own, from one process: an import costs seconds."""
    names = re.findall(r"^def (s(?:1|2|24|26)_\w+)", PROGRAM.read_text(encoding="utf-8"), re.M)
    return run_program(*names, SOFTNPU_HANG_SECONDS="1", SOFTNPU_SEED="1")


def in_thread(body: Callable[[], object]) -> str | None:
    """`body()` in another thread; the message of what it raised."""
    messages: list[str] = []

    def guarded() -> None:
        torch.npu.set_device(0)
        try:
            body()
        except RuntimeError as error:
            messages.append(str(error))

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    return messages[0] if messages else None


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device="npu")


# ------------------------------------------------------------------ hangs


def test_s1_an_update_that_runs_ahead_is_lost(program: dict[str, Any]) -> None:
    """VA PR #4233: with asynchronous scheduling the device hung in the event wait of step i+1."""
    assert re.search(WAITS_FOR_AN_UPDATE, program["s1_update_runs_ahead"])
    assert "did not come within 1 s (SOFTNPU_HANG_SECONDS)" in program["s1_update_runs_ahead"]
    assert program["s1_update_waits_for_the_replay_before"] == [2.0, 3.0, 4.0]


def test_s2_two_update_streams_hang(program: dict[str, Any]) -> None:
    """VA PR #12944, #13600: full graphs with a draft model stopped for ever."""
    assert re.search(WAITS_FOR_AN_UPDATE, program["s2_two_update_streams_no_wait"])
    assert program["s2_one_update_stream_that_waits"] == [2.0, 3.0, 4.0, 5.0]


def test_s2_two_update_streams_have_no_order(program: dict[str, Any]) -> None:
    """VA issue #13639: the draft's update and the target's, and either may be the last."""
    assert set(program["s2_two_update_streams_order"]) == {2.0, 3.0}


def test_s2_waiting_on_the_wrong_side_of_the_replay_is_a_circle(program: dict[str, Any]) -> None:
    """VA PR #12944: wait_stream after the replay, and each stream waits for the other."""
    message = program["s2_wait_stream_after_the_replay"]
    assert re.search(WAITS_FOR_AN_UPDATE, message)
    assert re.search(r"; stream \d+ of device 0 stands at the wait for event \d+", message)


# ------------------------------------------------------------------ captures that are refused


@pytest.mark.parametrize(
    ("number", "words"),
    [("207008", "Insufficient_Stream_Resources"), ("207005", "Alloc sq cq fail, stream_id=80")],
)
def test_s4_streams_run_out(number: str, words: str) -> None:
    """VA #9596, #8393, #2629: layers x sizes x communication streams, and the start-up failed."""
    result = run_program(
        "s4_streams_run_out",
        SOFTNPU_STREAM_LIMIT="80",
        SOFTNPU_STREAM_ERROR=number,
        TASK_QUEUE_ENABLE="0",
    )["s4_streams_run_out"]
    assert f"error code is {number}" in result["error"] and words in result["error"]
    assert "all 80 are in use (SOFTNPU_STREAM_LIMIT)" in result["error"]
    # A graph with four forks keeps five streams.
    assert 5 <= result["captured"] <= 80 // 5
    assert result["values"] == [[5.0]] * (result["captured"] // 2 + 1)


def test_s5_a_side_stream_that_is_not_joined_is_named() -> None:
    """VA #13792, xLLM #2284: 107025 at the end of the capture, and no word about which stream."""
    x, side = ones(4), torch.npu.Stream()

    def capture(join_last: bool) -> tuple[torch.npu.NPUGraph, torch.Tensor]:
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            origin = torch.npu.current_stream()
            side.wait_stream(origin)
            if not join_last:
                origin.wait_stream(side)
            with torch.npu.stream(side):
                y = x * 2
            if join_last:
                origin.wait_stream(side)
        return graph, y

    with pytest.raises(RuntimeError, match="error code is 107025") as raised:
        capture(join_last=False)
    named = re.search(
        r"stream (\d+) was forked into the capture of graph \d+ and not joined back: its last task "
        r"is aclnnMuls\. .* let stream (\d+) wait",
        str(raised.value),
    )
    assert named and named[1] != named[2]
    assert f"[{__file__}:" in str(raised.value)
    torch.npu.set_stream(torch.npu.default_stream())
    graph, y = capture(join_last=True)
    graph.replay()
    assert y.tolist() == [2.0] * 4


@pytest.mark.parametrize("read", [lambda x: x[0].item(), lambda x: bool((x > 0).all())])
def test_s6_a_read_in_the_forward_is_located(read: Callable[[torch.Tensor], Any]) -> None:
    """VA #16736, vllm-omni #4519: 107027 in LocalScalarDense, somewhere in the model's forward."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 3 if read(x) else x

    x = ones(4)
    refused = pytest.raises(RuntimeError, match="error code is 107027")
    with refused as raised, torch.npu.graph(torch.npu.NPUGraph()):
        forward(x)
    line = inspect.getsourcelines(read)[1]
    assert "LocalScalarDense" in str(raised.value)
    assert f"[{__file__}:{line} in <lambda>]" in str(raised.value)
    torch.npu.set_stream(torch.npu.default_stream())
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = torch.where(x[:1] != 0, x * 3, x)  # the choice made on the device
    graph.replay()
    assert y.tolist() == [3.0] * 4


def exchange_mode() -> None:
    mode = ctypes.c_int(RELAXED)
    library = ctypes.CDLL("libascendcl.so")
    assert library.aclmdlRICaptureThreadExchangeMode(ctypes.byref(mode)) == 0


@pytest.mark.parametrize(
    ("mode", "prepare", "refused"),
    [
        ("global", None, True),
        ("thread_local", None, False),
        ("global", exchange_mode, False),
    ],
)
def test_s7_a_copy_in_a_transfer_thread(
    mode: str, prepare: Callable[[], None] | None, refused: bool
) -> None:
    """VA #6002, #8992, Mooncake #2201: 107030 in a KV transfer thread while the model captured."""
    x, block, received = ones(4), torch.arange(4.0).npu(), []
    torch.npu.synchronize()

    def transfer() -> None:
        if prepare:
            prepare()
        received.append(block.cpu())

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, capture_error_mode=mode):
        y = x + 1
        message = in_thread(transfer)
        z = y * 2
    if refused:
        assert message and "error code is 107030" in message and "in global mode" in message
        assert f"[{__file__}:" in message and " in transfer]" in message
    else:
        assert message is None and received[0].tolist() == [0.0, 1.0, 2.0, 3.0]
    graph.replay()
    assert z.tolist() == [4.0] * 4


def test_s25_another_thread_queries_an_event_of_the_capture() -> None:
    """pytorch PR #104555, #148594: a watchdog's event query ended the capture.

    Here the query alone is refused, and the capture goes on.
    """
    x, inside, outside = ones(4), torch.npu.Event(), torch.npu.Event()
    outside.record()
    torch.npu.synchronize()

    def watchdog() -> None:
        until = time.monotonic() + 20
        while not inside.query() and time.monotonic() < until:  # no, until it was launched
            pass

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x + 1
        inside.record()
        refused = in_thread(watchdog)
        allowed = in_thread(outside.query)
        z = y * 2
    assert refused and "error code is 107028" in refused
    assert "was last recorded inside the capture of graph" in refused and " in watchdog]" in refused
    assert allowed is None
    graph.replay()
    assert z.tolist() == [4.0] * 4


# ------------------------------------------------------------------ memory and addresses


def capture_sizes(keep: Callable[[torch.Tensor], torch.Tensor]) -> tuple[list[Any], list[int]]:
    """Four graphs in one pool, what is kept of each, and the memory in use after each, in MiB."""
    x, pool = ones(MEGABYTE), torch.npu.graph_pool_handle()
    before, used, graphs = torch.npu.memory_allocated(), [], []
    for factor in range(4):
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, pool=pool):
            workspace = x * factor
            output = workspace + 1
        graphs.append((graph, keep(workspace), keep(output)))
        del workspace, output
        used.append((torch.npu.memory_allocated() - before) // MEGABYTE)
    return graphs, used


def test_s22_strong_references_keep_every_workspace() -> None:
    """VA PR #3331, #3743, #9565: memory grew with every captured size until it ran out."""
    gc.collect()
    graphs, used = capture_sizes(lambda tensor: tensor)
    assert used == [8, 16, 24, 32]
    held = torch.npu.memory_allocated()
    kept = [tensors for _, *tensors in graphs]
    del graphs
    assert torch.npu.memory_allocated() == held  # the graphs are gone, what they used is not
    del kept
    gc.collect()
    assert held - torch.npu.memory_allocated() >= 32 * MEGABYTE
    graphs, used = capture_sizes(_weak_ref_tensor)
    assert used == [0, 0, 0, 0]
    for factor, (graph, _, output) in enumerate(graphs):
        graph.replay()
        assert output[0].item() == factor + 1


class Counter(torch.nn.Module):
    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4, device="npu"))
        self.calls = 0

    def rebind(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.total = self.total + x
        return self.total * 1

    def in_place(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.total += x  # a buffer of a module: the tensor itself is added to
        return self.total * 1


@pytest.mark.parametrize(("way", "totals"), [("rebind", [1, 1, 1]), ("in_place", [1, 2, 3])])
def test_s23_rebinding_an_attribute_is_not_in_the_graph(way: str, totals: list[int]) -> None:
    """VA PR #6182, pytorch #114844: sums were wrong, since an attribute stayed what it was."""
    counter, x, graph = Counter(), ones(4), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        output = getattr(counter, way)(x)
    seen = []
    for _ in totals:
        graph.replay()
        seen.append(int(output[0].item()))
    assert seen == totals
    assert counter.calls == 1  # the Python code ran once, whatever it does


def test_s24_reset_of_one_graph_while_another_of_its_stream_replays() -> None:
    """pytorch #193402: graphs of one stream shared a workspace, and a reset freed it."""
    stream, weight = torch.npu.Stream(), torch.eye(256).npu()
    x, graphs = ones(256, 256), []
    outputs: list[torch.Tensor | None] = []
    for factor in (2, 3):
        graphs.append(torch.npu.NPUGraph())
        with torch.npu.graph(graphs[-1], stream=stream, pool=graphs[0].pool() if outputs else None):
            outputs.append(x @ weight * factor)
    first, second = graphs
    busy, opener = torch.npu.ExternalEvent(), torch.npu.Stream()
    busy.wait(torch.npu.current_stream())
    busy.reset(torch.npu.current_stream())
    for _ in range(20):
        second.replay()
    first.reset()  # none of the replays has begun
    busy.record(opener)
    outputs[0] = None
    gc.collect()
    torch.npu.empty_cache()
    others = [torch.full((256, 256), 9.0, device="npu") for _ in range(16)]
    second.replay()
    assert outputs[1] is not None and outputs[1].eq(3).all()
    assert all(other.eq(9).all() for other in others)


def test_s24_reading_memory_of_a_reset_graph_is_an_error(program: dict[str, Any]) -> None:
    """pytorch #193402: an illegal address at the next replay of the graph that was left."""
    message = program["s24_reads_memory_of_a_reset_graph"]
    assert "error code is 507015" in message
    assert re.search(r"aclnnAdds, 'self': 4194304 bytes at 0x\w+ are not memory of", message)
    assert "A graph keeps the addresses it was captured with" in message


def test_s26_a_cache_replaced_after_the_capture() -> None:
    """VA PR #9865, #10322: captured before the KV cache was allocated, and the start-up broke.

    The graph writes to the placeholder's address: into a tensor that has nothing to do with it.
    """
    cache, token = torch.zeros(1024, device="npu"), ones(4)

    def capture(cache: torch.Tensor) -> torch.npu.NPUGraph:
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            cache[:4].copy_(token)
        return graph

    early = capture(cache)
    placeholder = cache.data_ptr()
    del cache
    stranger = torch.full((1024,), 7.0, device="npu")
    assert stranger.data_ptr() == placeholder
    cache = torch.zeros(1024, device="npu")
    early.replay()
    assert cache[:4].tolist() == [0.0] * 4
    assert stranger[:5].tolist() == [1.0, 1.0, 1.0, 1.0, 7.0]
    capture(cache).replay()
    assert cache[:5].tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]


def test_s26_a_cache_whose_memory_went_back_is_an_error(program: dict[str, Any]) -> None:
    """VA #10322: a crash at the first step, where nobody got the placeholder's memory."""
    message = program["s26_cache_freed_after_the_capture"]
    assert "error code is 507015" in message
    assert re.search(r"bytes at 0x\w+ are not memory of device 0", message)


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
def test_s34_an_output_lives_until_the_next_replay() -> None:
    """TransformerEngine PR #2937, pytorch PR #178915: outputs and gradients that users had kept."""
    linear = torch.nn.Linear(4, 4).npu().requires_grad_(False)
    graphed = torch.npu.make_graphed_callables(linear, (ones(2, 4).requires_grad_(),))

    def step(value: float) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.full((2, 4), value, device="npu", requires_grad=True)
        output = graphed(x)
        (gradient,) = torch.autograd.grad((output * value).sum(), x)
        return output.detach(), gradient

    kept = step(1.0)
    cloned = [tensor.clone() for tensor in kept]
    expected = [tensor.tolist() for tensor in kept]
    later = step(5.0)
    for mine, copy, values, new in zip(kept, cloned, expected, later, strict=True):
        assert mine.data_ptr() == new.data_ptr()
        assert mine.tolist() == new.tolist() != values
        assert copy.tolist() == values
