"""Faults of the field that end a process: hangs, streams run out, addresses gone.

Runs the cases named on the command line and prints one JSON object: for each its values, or its
error. Each runs in a child of this process, since a hang or a fault is for a process's life.
"""

import gc
import json
import os
import sys
from collections.abc import Callable

import torch

CASES: dict[str, Callable[[], object]] = {}
MEGABYTE = 1 << 20


def case(function: Callable[[], object]) -> Callable[[], object]:
    CASES[function.__name__] = function
    return function


class Step:
    """`y = x * factor` as a graph; each replay waits for an update of the factor."""

    # A graph that goes away during its replay would add an error of its own.
    alive: list["Step"] = []

    def __init__(self) -> None:
        self.x = torch.ones(4, device="npu")
        self.y = torch.zeros(4, device="npu")
        self.event = torch.npu.ExternalEvent()
        self.graph = torch.npu.NPUGraph()
        with torch.npu.graph(self.graph):
            stream = torch.npu.current_stream()
            self.event.wait(stream)
            self.event.reset(stream)
            torch.npu.graph_task_group_begin(stream)
            torch.mul(self.x, 1.0, out=self.y)
            self.handle = torch.npu.graph_task_group_end(stream)
        self.alive.append(self)

    def update(self, stream: torch.npu.Stream, factor: float) -> None:
        with torch.npu.stream(stream):
            torch.npu.graph_task_update_begin(stream, self.handle)
            torch.mul(self.x, factor, out=self.y)
            torch.npu.graph_task_update_end(stream)
            self.event.record(stream)

    def replay(self) -> torch.Tensor:
        self.graph.replay()
        return self.y.clone()


class Busy:
    """Keeps streams busy until `open()`, as a long kernel would: the host runs ahead of them."""

    def __init__(self, *streams: torch.npu.Stream) -> None:
        opener = torch.npu.Stream()
        self.gates = [(torch.npu.ExternalEvent(), opener) for _ in streams]
        for (gate, _), stream in zip(self.gates, streams, strict=True):
            gate.wait(stream)
            gate.reset(stream)

    def open(self) -> None:
        for gate, opener in self.gates:
            gate.record(opener)


def first_values(outputs: list[torch.Tensor]) -> list[float]:
    torch.npu.synchronize()
    return [output[0].item() for output in outputs]


@case
def s1_update_runs_ahead() -> list[float]:
    """Replay i, update i, for two steps, the device still busy with what came before."""
    step, updates = Step(), torch.npu.Stream()
    busy = Busy(torch.npu.current_stream())
    outputs = []
    for factor in (2.0, 3.0):
        outputs.append(step.replay())
        step.update(updates, factor)
    updates.synchronize()  # both records have landed, and neither replay has begun
    busy.open()
    return first_values(outputs)


@case
def s1_update_waits_for_the_replay_before() -> list[float]:
    step, updates, main = Step(), torch.npu.Stream(), torch.npu.current_stream()
    busy = Busy(main)
    outputs = []
    before = main.record_event()
    for factor in (2.0, 3.0, 4.0):
        outputs.append(step.replay())
        after = main.record_event()
        updates.wait_event(before)
        step.update(updates, factor)
        before = after
    busy.open()
    return first_values(outputs)


@case
def s2_two_update_streams_no_wait() -> list[float]:
    """The target's step and the draft's step update one graph, each on a stream of its own."""
    step, target, draft = Step(), torch.npu.Stream(), torch.npu.Stream()
    busy = Busy(torch.npu.current_stream())
    outputs = []
    for factor, updates in ((2.0, target), (3.0, draft)):
        step.update(updates, factor)
        outputs.append(step.replay())
    target.synchronize()
    draft.synchronize()
    busy.open()
    return first_values(outputs)


@case
def s2_two_update_streams_order() -> list[float]:
    """Twelve times: 2.0 by one update stream, then 3.0 by another; what a replay takes."""
    values = []
    for _ in range(12):
        step, target, draft = Step(), torch.npu.Stream(), torch.npu.Stream()
        busy = Busy(target, draft)
        step.update(target, 2.0)
        step.update(draft, 3.0)
        busy.open()
        torch.npu.synchronize()
        values += first_values([step.replay()])
    return values


@case
def s2_wait_stream_after_the_replay() -> list[float]:
    """The update waits for the replay that waits for the update."""
    step, updates = Step(), torch.npu.Stream()
    output = step.replay()
    updates.wait_stream(torch.npu.current_stream())
    step.update(updates, 2.0)
    return first_values([output])


@case
def s2_one_update_stream_that_waits() -> list[float]:
    step, updates = Step(), torch.npu.Stream()
    busy = Busy(torch.npu.current_stream())
    outputs = []
    for factor in (2.0, 3.0, 4.0, 5.0):
        updates.wait_stream(torch.npu.current_stream())
        step.update(updates, factor)
        outputs.append(step.replay())
    busy.open()
    return first_values(outputs)


def layers_with_communication(
    size: int, comm: list[torch.npu.Stream]
) -> tuple[torch.npu.NPUGraph, torch.Tensor]:
    """One size captured: a layer per stream of `comm`, its reduction forked onto that stream."""
    graph, x = torch.npu.NPUGraph(), torch.ones(size, device="npu")
    with torch.npu.graph(graph):
        for stream in comm:
            x = x + 1
            stream.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(stream):
                x = x * 1
            torch.npu.current_stream().wait_stream(stream)
    return graph, x


@case
def s4_streams_run_out() -> dict[str, object]:
    """Sizes captured until no stream is left; half of them dropped; the failed one again."""
    comm = [torch.npu.Stream() for _ in range(4)]
    graphs: list[tuple[torch.npu.NPUGraph, torch.Tensor]] = []
    error = None
    while error is None:
        try:
            graphs.append(layers_with_communication(len(graphs) + 1, comm))
        except RuntimeError as raised:
            error = str(raised)
            torch.npu.set_stream(torch.npu.default_stream())
    captured = len(graphs)
    del graphs[captured // 2 :]
    gc.collect()
    graphs.append(layers_with_communication(captured + 1, comm))
    for graph, _ in graphs:
        graph.replay()
    return {
        "error": error,
        "captured": captured,
        "values": [output.unique().tolist() for _, output in graphs],
    }


@case
def s24_reads_memory_of_a_reset_graph() -> list[float]:
    """The second graph reads the first one's output, of which nobody else keeps hold."""
    x = torch.ones(MEGABYTE, device="npu")
    first, second = torch.npu.NPUGraph(), torch.npu.NPUGraph()
    with torch.npu.graph(first):
        y = x * 2
    with torch.npu.graph(second):
        z = y + 1
    first.replay()
    second.replay()
    torch.npu.synchronize()
    del y
    first.reset()
    gc.collect()
    torch.npu.empty_cache()
    second.replay()
    return first_values([z])


@case
def s26_cache_freed_after_the_capture() -> list[float]:
    """A profile run's cache is captured, freed, and its memory given back before the replay."""
    cache = torch.zeros(4 * MEGABYTE, device="npu")  # a segment of the allocator for it alone
    token = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        cache[:4].copy_(token)
    real = torch.zeros(4 * MEGABYTE, device="npu")
    del cache
    gc.collect()
    torch.npu.empty_cache()
    graph.replay()
    return first_values([real])


def in_a_child(run: Callable[[], object]) -> object:
    """What `run` returns or raises, from a fork made before the device is taken into use."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = run()
        except RuntimeError as error:
            result = str(error)
        with open(writer, "w", encoding="utf-8") as pipe:
            json.dump(result, pipe)
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else "the case ended its process"


if __name__ == "__main__":
    print(json.dumps({name: in_a_child(CASES[name]) for name in sys.argv[1:] or CASES}))
