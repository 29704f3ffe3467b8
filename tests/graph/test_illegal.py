"""What is illegal while a stream captures: the code, the message, and that the process goes on.

Through the C interface, so that each rule is met on its own; test_illegal_torch.py meets them
through torch_npu. Where an operation is refused and leaves the capture valid, the end succeeds;
where it invalidates the capture, the end gives 507903, no graph, and the reason.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.abi.acl_calls import DEVICE_TO_DEVICE, HOST_TO_DEVICE, OK, Acl, handle_of
from tests.abi.conftest import acl, acl_library, device_memory, event, pinned, stream

__all__ = ["acl", "acl_library", "device_memory", "event", "pinned", "stream"]

byref = ctypes.byref
GLOBAL, THREAD_LOCAL, RELAXED = range(3)
EQUAL = 1


@dataclass
class Case:
    """A capture under way on `stream`, and what operations need."""

    acl: Acl
    stream: int
    side: int
    event: int
    memory: int
    pinned: int
    pageable: ctypes.Array[ctypes.c_char]

    def begin(self, mode: int = GLOBAL) -> None:
        self.acl.check(self.acl.aclmdlRICaptureBegin(self.stream, mode))

    def end(self, stream: int | None = None) -> tuple[int, int | None]:
        """The code of the end, and the graph. The output argument is poisoned before."""
        graph = ctypes.c_void_p(0xBAD)
        number = self.acl.aclmdlRICaptureEnd(stream or self.stream, byref(graph))
        return number, graph.value

    def new_stream(self) -> int:
        return handle_of(self.acl.aclrtCreateStream)

    def new_event(self) -> int:
        return handle_of(self.acl.aclrtCreateEventExWithFlag, 1)

    def id_of(self, stream: int) -> int:
        number = ctypes.c_int32()
        self.acl.check(self.acl.aclrtStreamGetId(stream, byref(number)))
        return number.value

    def status(self, stream: int) -> int:
        status = ctypes.c_int32(-1)
        self.acl.check(self.acl.aclmdlRICaptureGetInfo(stream, byref(status), None))
        return status.value

    def fill(self, value: int, stream: int | None = None) -> int:
        return self.acl.aclrtMemsetAsync(self.memory, 8, value, 8, stream or self.stream)

    def fork(self) -> None:
        self.acl.check(self.acl.aclrtRecordEvent(self.event, self.stream))
        self.acl.check(self.acl.aclrtStreamWaitEvent(self.side, self.event))

    def works(self) -> None:
        """The next capture on the same streams works: fork, fill, join, replay."""
        self.begin()
        self.fork()
        self.acl.check(self.fill(42, self.side))
        done = self.new_event()
        self.acl.check(self.acl.aclrtRecordEvent(done, self.side))
        self.acl.check(self.acl.aclrtStreamWaitEvent(self.stream, done))
        number, graph = self.end()
        self.acl.check(number)
        self.acl.check(self.acl.aclrtMemset(self.memory, 8, 0, 8))
        self.acl.check(self.acl.aclmdlRIExecuteAsync(graph, self.stream))
        self.acl.check(self.acl.aclrtSynchronizeStream(self.stream))
        host = ctypes.create_string_buffer(8)
        self.acl.check(self.acl.aclrtMemcpy(host, 8, self.memory, 8, 2))
        assert host.raw == bytes([42] * 8)
        self.acl.check(self.acl.aclmdlRIDestroy(graph))


@pytest.fixture
def case(
    acl: Acl,
    stream: int,
    event: int,
    device_memory: Callable[[int], int],
    pinned: Callable[[int], int],
) -> Iterator[Case]:
    yield Case(
        acl,
        stream,
        handle_of(acl.aclrtCreateStream),
        event,
        device_memory(8),
        pinned(8),
        ctypes.create_string_buffer(8),
    )


def in_thread(body: Callable[[], int]) -> int:
    """`body()` in another thread, which has the device selected as every ACL thread must."""
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(body()))
    thread.start()
    thread.join()
    return results[0]


# Refused, not recorded; the capture stays valid: operation, code, words of the message.
Operation = Callable[[Case], int]
REFUSED: dict[str, tuple[Operation, int, tuple[str, ...]]] = {
    "synchronize": (
        lambda c: c.acl.aclrtSynchronizeStream(c.stream),
        107027,
        ("Not allowed to synchronize", "captures graph", ".item()"),
    ),
    "synchronize with timeout": (
        lambda c: c.acl.aclrtSynchronizeStreamWithTimeout(c.stream, 10),
        107027,
        ("Not allowed to synchronize",),
    ),
    "query": (
        lambda c: c.acl.aclrtStreamQuery(c.stream, byref(ctypes.c_int32())),
        107027,
        ("Not allowed to query",),
    ),
    "synchronize the device": (
        lambda c: c.acl.aclrtSynchronizeDevice(),
        107027,
        ("Not allowed to synchronize the device",),
    ),
    "copy": (
        lambda c: c.acl.aclrtMemcpy(c.memory, 8, c.pageable, 8, HOST_TO_DEVICE),
        107030,
        ("aclrtMemcpy", "the current capture mode does not support this operation"),
    ),
    "memset": (
        lambda c: c.acl.aclrtMemset(c.memory, 8, 0, 8),
        107030,
        ("aclrtMemset", "the current capture mode does not support this operation"),
    ),
    "copy of pageable memory": (
        lambda c: c.acl.aclrtMemcpyAsync(c.memory, 8, c.pageable, 8, HOST_TO_DEVICE, c.stream),
        107041,
        ("aclrtMemcpyAsync", "not pinned", "pin_memory=True"),
    ),
    "begin again": (
        lambda c: c.acl.aclmdlRICaptureBegin(c.stream, GLOBAL),
        107027,
        ("captures graph", "already"),
    ),
    "begin on the default stream": (
        lambda c: c.acl.aclmdlRICaptureBegin(None, GLOBAL),
        107031,
        ("default stream",),
    ),
    "end of another stream": (lambda c: c.end(c.side)[0], 107029, ("does not capture",)),
    "end in another thread": (lambda c: in_thread(lambda: c.end()[0]), 107038, ()),
}
NAMES_STREAM = {"synchronize", "synchronize with timeout", "query", "copy of pageable memory",
                "begin again"}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_operation_leaves_the_capture_valid(case: Case, name: str) -> None:
    operation, code, words = REFUSED[name]
    case.begin()
    case.acl.check(case.fill(5))
    number = operation(case)
    assert number == code
    if name != "end in another thread":  # the text is the other thread's
        for word in words:
            assert word in case.acl.message()
    if name in NAMES_STREAM:
        assert f"stream {case.id_of(case.stream)} of device" in case.acl.message()
    assert case.status(case.stream) == 1
    number, graph = case.end()
    case.acl.check(number)
    case.acl.check(case.acl.aclmdlRIDestroy(graph))
    case.works()


def record_before_and_wait(case: Case) -> int:
    return case.acl.aclrtStreamWaitEvent(case.stream, case.event)


def default_stream_waits(case: Case) -> int:
    case.acl.check(case.acl.aclrtRecordEvent(case.event, case.stream))
    return case.acl.aclrtStreamWaitEvent(None, case.event)


def group_begins_twice(case: Case) -> int:
    case.acl.check(case.acl.aclmdlRICaptureTaskGrpBegin(case.stream))
    return case.acl.aclmdlRICaptureTaskGrpBegin(case.stream)


def group_ends_without_begin(case: Case) -> int:
    return case.acl.aclmdlRICaptureTaskGrpEnd(case.stream, byref(ctypes.c_void_p()))


def other_stream_submits_inside_a_group(case: Case) -> int:
    case.fork()
    case.acl.check(case.acl.aclmdlRICaptureTaskGrpBegin(case.stream))
    return case.fill(1, case.side)


INVALIDATING: dict[str, tuple[Operation, int, tuple[str, ...]]] = {
    "wait for an event of before": (
        record_before_and_wait,
        107024,
        ("waits for event", "external"),
    ),
    "default stream joins": (default_stream_waits, 107031, ("default stream", "waits for event")),
    "group begins twice": (group_begins_twice, 107033, ("task group is open already",)),
    "group ends without begin": (group_ends_without_begin, 107033, ("No task group is open",)),
    "submit inside a group": (
        other_stream_submits_inside_a_group,
        107034,
        ("while a task group is open on stream",),
    ),
}


@pytest.mark.parametrize("name", INVALIDATING)
def test_invalidating_operation(case: Case, name: str) -> None:
    operation, code, words = INVALIDATING[name]
    case.acl.check(case.acl.aclrtRecordEvent(case.event, case.side))
    case.acl.check(case.acl.aclrtSynchronizeStream(case.side))
    case.begin()
    assert operation(case) == code
    reason = case.acl.message()
    for word in (*words, "stream"):
        assert word in reason
    assert case.status(case.stream) == 2
    # Nothing can be recorded any more, and the end says why.
    case.acl.expect(case.fill(1), 507903, words[0])
    assert case.end() == (507903, None)
    assert words[0] in case.acl.message()
    assert f"on stream {case.id_of(case.stream)} of device" in case.acl.message()
    assert case.status(case.stream) == 0
    case.works()


def test_two_captures_that_meet_are_both_invalidated(case: Case) -> None:
    case.begin()
    case.acl.check(case.acl.aclmdlRICaptureBegin(case.side, GLOBAL))
    case.acl.check(case.acl.aclrtRecordEvent(case.event, case.stream))
    case.acl.expect(
        case.acl.aclrtStreamWaitEvent(case.side, case.event), 107032, "two captures can't be merged"
    )
    for stream in (case.stream, case.side):  # noqa: F402
        assert case.status(stream) == 2
        assert case.end(stream) == (507903, None)
        assert "two captures can't be merged" in case.acl.message()
    case.works()


def test_unjoined_fork_is_named(case: Case) -> None:
    case.begin()
    case.fork()
    case.acl.check(case.fill(1, case.side))
    assert case.end() == (107025, None)
    message = case.acl.message()
    assert f"stream {case.id_of(case.side)} was forked" in message
    assert "its last task is" in message
    case.works()


def test_work_after_the_join_is_an_unjoined_fork(case: Case) -> None:
    case.begin()
    case.fork()
    done = case.new_event()
    case.acl.check(case.acl.aclrtRecordEvent(done, case.side))
    case.acl.check(case.acl.aclrtStreamWaitEvent(case.stream, done))
    case.acl.check(case.fill(1, case.side))
    assert case.end() == (107025, None)
    case.works()


def test_end_of_a_forked_stream(case: Case) -> None:
    case.begin()
    case.fork()
    assert case.end(case.side) == (107036, None)
    assert "must end there" in case.acl.message()
    assert case.end()[0] == 107025
    case.works()


def test_end_of_a_stream_that_does_not_capture(case: Case) -> None:
    assert case.end() == (107029, None)
    case.works()


def test_relaxed_capture_may_end_in_another_thread(case: Case) -> None:
    case.begin(RELAXED)
    case.acl.check(case.fill(1))
    graphs: list[tuple[int, int | None]] = []

    def body() -> int:
        graphs.append(case.end())
        return graphs[0][0]

    assert in_thread(body) == OK
    case.acl.check(case.acl.aclmdlRIDestroy(graphs[0][1]))
    case.works()


def test_group_left_open_at_the_end(case: Case) -> None:
    case.begin()
    case.acl.check(case.acl.aclmdlRICaptureTaskGrpBegin(case.stream))
    assert case.end() == (107033, None)
    assert "still open on stream" in case.acl.message()
    case.works()


@pytest.mark.parametrize("call", ["query", "status", "synchronize", "elapsed"])
def test_captured_event(case: Case, call: str) -> None:
    a = case.acl
    other = handle_of(a.aclrtCreateEventExWithFlag, 9)
    calls: dict[str, Callable[[], int]] = {
        "query": lambda: a.aclrtQueryEvent(case.event, byref(ctypes.c_int32())),
        "status": lambda: a.aclrtQueryEventStatus(case.event, byref(ctypes.c_int32())),
        "synchronize": lambda: a.aclrtSynchronizeEvent(case.event),
        "elapsed": lambda: a.aclrtEventElapsedTime(byref(ctypes.c_float()), other, case.event),
    }
    a.check(a.aclrtRecordEvent(other, case.side))
    a.check(a.aclrtSynchronizeStream(case.side))
    case.begin()
    a.check(a.aclrtRecordEvent(case.event, case.stream))
    a.expect(calls[call](), 107028, "event", "recorded inside the capture of graph")
    number, graph = case.end()
    a.check(number)
    a.check(a.aclmdlRIDestroy(graph))
    # Recorded outside a capture, it is an event like any other.
    a.check(a.aclrtRecordEvent(case.event, case.stream))
    a.check(a.aclrtSynchronizeEvent(case.event))
    case.works()


@pytest.mark.parametrize(
    ("mode", "in_capturing_thread", "exchange", "allowed"),
    [
        (GLOBAL, True, None, False),
        (GLOBAL, True, THREAD_LOCAL, False),
        (GLOBAL, True, RELAXED, True),
        (GLOBAL, False, None, False),
        (GLOBAL, False, THREAD_LOCAL, True),
        (GLOBAL, False, RELAXED, True),
        (THREAD_LOCAL, True, None, False),
        (THREAD_LOCAL, True, RELAXED, True),
        (THREAD_LOCAL, False, None, True),
        (RELAXED, True, None, True),
        (RELAXED, False, None, True),
    ],
)
def test_capture_mode_and_thread_mode(
    case: Case, mode: int, in_capturing_thread: bool, exchange: int | None, allowed: bool
) -> None:
    a = case.acl

    def unsafe_call() -> int:
        swapped = ctypes.c_int32(exchange or GLOBAL)
        if exchange is not None:
            a.check(a.aclmdlRICaptureThreadExchangeMode(byref(swapped)))
            assert swapped.value == GLOBAL
        number = a.aclrtMemset(case.memory, 8, 3, 8)
        if exchange is not None:
            a.check(a.aclmdlRICaptureThreadExchangeMode(byref(swapped)))
            assert swapped.value == exchange
        return number

    def selected() -> int:
        a.check(a.aclrtSetDevice(1))
        return unsafe_call()

    case.begin(mode)
    number = unsafe_call() if in_capturing_thread else in_thread(selected)
    assert number == (OK if allowed else 107030)
    case.acl.check(case.end()[0])
    case.works()


class TestTaskGroup:
    """Updates of a group that holds one memset."""

    @pytest.fixture
    def group(self, case: Case) -> Iterator[int]:
        case.begin()
        case.acl.check(case.acl.aclmdlRICaptureTaskGrpBegin(case.stream))
        case.acl.check(case.fill(1))
        yield handle_of(lambda out: case.acl.aclmdlRICaptureTaskGrpEnd(case.stream, out))

    def finish(self, case: Case) -> None:
        number, _graph = case.end()
        case.acl.check(number)

    def test_other_number_of_tasks(self, case: Case, group: int) -> None:
        self.finish(case)
        a = case.acl
        a.check(a.aclmdlRICaptureTaskUpdateBegin(case.side, group))
        a.check(case.fill(1, case.side))
        a.check(case.fill(2, case.side))
        a.expect(a.aclmdlRICaptureTaskUpdateEnd(case.side), 507000, "task group update error")
        case.works()

    def test_other_operator(self, case: Case, group: int) -> None:
        self.finish(case)
        a = case.acl
        a.check(a.aclmdlRICaptureTaskUpdateBegin(case.side, group))
        copy = (case.memory, 4, case.memory + 4, 4, DEVICE_TO_DEVICE, case.side)
        a.check(a.aclrtMemcpyAsync(*copy))
        a.expect(a.aclmdlRICaptureTaskUpdateEnd(case.side), 507000, "task group update error")
        case.works()

    def test_task_that_cannot_be_updated(self, case: Case, group: int) -> None:
        self.finish(case)
        a = case.acl
        a.check(a.aclmdlRICaptureTaskUpdateBegin(case.side, group))
        a.expect(a.aclrtValueWrite(case.memory, 1, 0, case.side), 207019, "can't be part")
        a.check(case.fill(1, case.side))
        a.check(a.aclmdlRICaptureTaskUpdateEnd(case.side))
        case.works()

    def test_update_while_it_is_captured(self, case: Case, group: int) -> None:
        a = case.acl
        a.expect(a.aclmdlRICaptureTaskUpdateBegin(case.side, group), 107033, "still being captured")
        self.finish(case)
        case.works()

    def test_update_on_a_capturing_stream(self, case: Case, group: int) -> None:
        self.finish(case)
        case.begin()
        call = case.acl.aclmdlRICaptureTaskUpdateBegin
        case.acl.expect(call(case.stream, group), 107033, "while that stream captures")
        case.acl.check(case.end()[0])
        case.works()

    def test_update_begins_twice(self, case: Case, group: int) -> None:
        self.finish(case)
        a = case.acl
        a.check(a.aclmdlRICaptureTaskUpdateBegin(case.side, group))
        a.expect(a.aclmdlRICaptureTaskUpdateBegin(case.side, group), 107033, "already")
        a.check(case.fill(1, case.side))
        a.check(a.aclmdlRICaptureTaskUpdateEnd(case.side))
        a.expect(a.aclmdlRICaptureTaskUpdateEnd(case.side), 107033, "nothing to end")
        case.works()


def test_replay_inside_a_capture(case: Case) -> None:
    case.begin()
    _, graph = case.end()
    case.begin()
    case.acl.expect(case.acl.aclmdlRIExecuteAsync(graph, case.stream), 107027, "replay graph")
    case.acl.check(case.end()[0])
    case.works()


def test_graph_is_used_before_its_end(case: Case) -> None:
    case.begin()
    graph = ctypes.c_void_p()
    status = ctypes.c_int32()
    case.acl.check(case.acl.aclmdlRICaptureGetInfo(case.stream, byref(status), byref(graph)))
    case.acl.expect(case.acl.aclmdlRIExecuteAsync(graph, case.side), 107026, "still being captured")
    case.acl.expect(case.acl.aclmdlRIDestroy(graph), 107026, "still being captured")
    case.acl.check(case.end()[0])
    case.works()


def test_destroy_while_a_replay_runs(case: Case) -> None:
    a = case.acl
    a.check(a.aclrtMemset(case.memory, 8, 0, 8))
    case.begin()
    a.check(a.aclrtValueWait(case.memory, 1, EQUAL, case.stream))
    _, graph = case.end()
    a.check(a.aclmdlRIExecuteAsync(graph, case.stream))
    a.expect(a.aclmdlRIDestroy(graph), 107037, "is being replayed")
    a.check(a.aclrtValueWrite(case.memory, 1, 0, case.side))
    a.check(a.aclrtSynchronizeStream(case.stream))
    a.check(a.aclmdlRIDestroy(graph))
    case.works()
