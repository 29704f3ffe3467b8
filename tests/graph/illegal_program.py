"""A program that does everything illegal during a capture, through torch_npu, and goes on.

Prints one JSON object: for each mistake what was raised where it was made, what the end of the
capture raised, and whether the next capture worked. `--names` are the mistakes to make.
"""

import argparse
import gc
import json
import threading
from collections.abc import Callable

import torch

MEGABYTE = 1 << 20
MISTAKES: dict[str, Callable[["Attempt"], object]] = {}


def mistake(function: Callable[["Attempt"], object]) -> Callable[["Attempt"], object]:
    MISTAKES[function.__name__] = function
    return function


class Attempt:
    """A capture under way, with a block of memory of its own."""

    def __init__(self) -> None:
        self.device = torch.npu.current_device()
        self.x = torch.ones(4, device="npu")
        self.pageable = torch.ones(4)
        self.side = torch.npu.Stream()
        self.before = torch.npu.Event()
        self.before.record()
        self.stream = torch.npu.Stream()
        self.other = torch.npu.NPUGraph()
        with torch.npu.graph(self.other):
            self.x + 1
        torch.npu.synchronize()
        self.graph = torch.npu.NPUGraph()

    def fork(self) -> None:
        self.side.wait_stream(torch.npu.current_stream())

    def in_thread(self, body: Callable[[], object]) -> None:
        """`body()` in another thread; what it raises is raised here."""
        errors: list[RuntimeError] = []

        def guarded() -> None:
            torch.npu.set_device(self.device)
            try:
                body()
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]

    def recorded(self) -> torch.npu.Event:
        event = torch.npu.Event(enable_timing=True)
        event.record()
        return event

    def run(self, make: Callable[["Attempt"], object]) -> dict[str, str | None]:
        raised, ended = None, None
        with torch.npu.stream(self.stream):
            self.graph.capture_begin()
            kept = torch.zeros(MEGABYTE, device="npu") + 1
            try:
                make(self)
            except RuntimeError as error:
                raised = str(error)
            try:
                self.graph.capture_end()
            except RuntimeError as error:
                ended = str(error)
        del kept
        return {"raised": raised, "ended": ended}


@mistake
def item(attempt: Attempt) -> object:
    return (attempt.x + 1)[0].item()


@mistake
def synchronize_device(attempt: Attempt) -> object:
    return torch.npu.synchronize()


@mistake
def synchronize_stream(attempt: Attempt) -> object:
    return torch.npu.current_stream().synchronize()


@mistake
def query_stream(attempt: Attempt) -> object:
    return torch.npu.current_stream().query()


@mistake
def query_event(attempt: Attempt) -> object:
    event = attempt.recorded()
    while not event.query():  # with a task queue, no until the record was launched
        pass
    return None


@mistake
def synchronize_event(attempt: Attempt) -> object:
    return attempt.recorded().synchronize()


@mistake
def elapsed_time(attempt: Attempt) -> object:
    return attempt.recorded().elapsed_time(attempt.recorded())


@mistake
def copy_of_pageable_memory(attempt: Attempt) -> object:
    return attempt.x.copy_(attempt.pageable, non_blocking=True)


@mistake
def replay_another_graph(attempt: Attempt) -> object:
    return attempt.other.replay()


@mistake
def capture_again(attempt: Attempt) -> object:
    return torch.npu.NPUGraph().capture_begin()


@mistake
def copy_in_another_thread(attempt: Attempt) -> object:
    return attempt.in_thread(lambda: attempt.x.cpu())


@mistake
def end_in_another_thread(attempt: Attempt) -> object:
    def end() -> None:
        with torch.npu.stream(attempt.stream):
            attempt.graph.capture_end()

    return attempt.in_thread(end)


@mistake
def group_begins_twice(attempt: Attempt) -> object:
    torch.npu.graph_task_group_begin(attempt.stream)
    return torch.npu.graph_task_group_begin(attempt.stream)


@mistake
def group_is_left_open(attempt: Attempt) -> object:
    return torch.npu.graph_task_group_begin(attempt.stream)


@mistake
def unjoined_fork(attempt: Attempt) -> object:
    attempt.fork()
    with torch.npu.stream(attempt.side):
        return attempt.x * 2


@mistake
def wait_for_an_event_of_before(attempt: Attempt) -> object:
    return torch.npu.current_stream().wait_event(attempt.before)


@mistake
def default_stream_joins(attempt: Attempt) -> object:
    event = torch.npu.current_stream().record_event()
    return torch.npu.default_stream().wait_event(event)


@mistake
def captures_meet(attempt: Attempt) -> object:
    event = torch.npu.current_stream().record_event()
    other = torch.npu.NPUGraph()
    with torch.npu.stream(attempt.side):
        other.capture_begin()
        try:
            attempt.side.wait_event(event)
        finally:
            try:
                other.capture_end()
            except RuntimeError as error:
                assert "507903" in str(error), error
    return None


@mistake
def submit_inside_a_group(attempt: Attempt) -> object:
    attempt.fork()
    torch.npu.graph_task_group_begin(attempt.stream)
    with torch.npu.stream(attempt.side):
        return attempt.x.add_(1)


def works() -> bool:
    """The next capture, with a fork, gives the right values."""
    x = torch.ones(8, device="npu")
    side, graph = torch.npu.Stream(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x + 1
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            z = y * 10
        torch.npu.current_stream().wait_stream(side)
    graph.replay()
    return z.tolist() == [20.0] * 8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", nargs="+", default=list(MISTAKES))
    results = {}
    works()
    for name in parser.parse_args().names:
        gc.collect()
        torch.npu.empty_cache()
        reserved = torch.npu.memory_reserved()
        result: dict[str, object] = dict(Attempt().run(MISTAKES[name]))
        torch.npu.set_stream(torch.npu.default_stream())
        gc.collect()
        torch.npu.empty_cache()
        # The pool of a failed capture is given back; a small block may stay with the allocator.
        result["kept_bytes"] = torch.npu.memory_reserved() - reserved
        result["next_works"] = works()
        results[name] = result
    print(json.dumps(results))


if __name__ == "__main__":
    main()
