"""Capture and replay through the C interface, and what is illegal there."""

import ctypes
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.abi.acl_calls import (
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    OK,
    RT_ARRAY_TOO_SHORT,
    RT_INVALID_HANDLE,
    RT_PARAM_INVALID,
    Acl,
    handle_of,
)

byref = ctypes.byref
Allocate = Callable[[int], int]
GLOBAL, THREAD_LOCAL, RELAXED = range(3)
WILD = 0x1234


def captured(acl: Acl, stream: int, *addresses: int) -> int:
    """A graph that sets one byte at each address to 7."""
    acl.check(acl.aclmdlRICaptureBegin(stream, RELAXED))
    for address in addresses:
        acl.check(acl.aclrtMemsetAsync(address, 1, 7, 1, stream))
    return handle_of(lambda out: acl.aclmdlRICaptureEnd(stream, out))


def byte_at(acl: Acl, address: int) -> int:
    host = ctypes.create_string_buffer(1)
    acl.check(acl.aclrtMemcpy(host, 1, address, 1, DEVICE_TO_HOST))
    return host.raw[0]


def info(acl: Acl, stream: int) -> tuple[int, int | None]:
    status, graph = ctypes.c_int32(-1), ctypes.c_void_p(1)
    acl.check(acl.aclmdlRICaptureGetInfo(stream, byref(status), byref(graph)))
    return status.value, graph.value


def test_graph_exists_from_begin_on(acl: Acl, stream: int) -> None:
    assert info(acl, stream) == (0, None)
    acl.check(acl.aclmdlRICaptureBegin(stream, GLOBAL))
    status, graph = info(acl, stream)
    assert status == 1 and graph is not None
    assert handle_of(lambda out: acl.aclmdlRICaptureEnd(stream, out)) == graph
    assert info(acl, stream) == (0, None)
    acl.check(acl.aclmdlRIDestroy(graph))


def test_nothing_runs_before_replay(acl: Acl, device_memory: Allocate, stream: int) -> None:
    address, other = device_memory(1), handle_of(acl.aclrtCreateStream)
    acl.check(acl.aclrtMemset(address, 1, 0, 1))
    graph = captured(acl, stream, address)
    assert byte_at(acl, address) == 0
    acl.check(acl.aclmdlRIExecuteAsync(graph, other))
    acl.check(acl.aclrtSynchronizeStream(other))
    assert byte_at(acl, address) == 7
    acl.check(acl.aclrtMemset(address, 1, 0, 1))
    acl.check(acl.aclmdlRIExecute(graph, 5000))
    assert byte_at(acl, address) == 7
    acl.check(acl.aclmdlRIDestroy(graph))
    for call in (lambda g: acl.aclmdlRIExecuteAsync(g, other), acl.aclmdlRIDestroy,
                 lambda g: acl.aclmdlRIExecute(g, -1), acl.aclmdlRIDebugPrint):  # fmt: skip
        acl.expect(call(graph), RT_INVALID_HANDLE, "no live graph")
        acl.expect(call(None), RT_PARAM_INVALID, "modelRI is null")
    acl.expect(acl.aclmdlRIExecute(graph, -2), RT_PARAM_INVALID)


def test_what_is_illegal_while_a_stream_captures(
    acl: Acl, device_memory: Allocate, stream: int, event: int
) -> None:
    address, host = device_memory(8), ctypes.create_string_buffer(8)
    status = ctypes.c_int32()
    acl.check(acl.aclmdlRICaptureBegin(stream, GLOBAL))
    acl.expect(acl.aclrtMemcpy(address, 8, host, 8, HOST_TO_DEVICE), 107030)
    acl.expect(acl.aclrtMemset(address, 8, 0, 8), 107030)
    out = ctypes.c_void_p(5)
    # One of these calls has invalidated the capture or not; the end says so, and frees the graph.
    acl.check(acl.aclrtRecordEvent(event, stream))
    acl.expect(acl.aclrtQueryEventStatus(event, byref(status)), 107028)
    acl.expect(acl.aclrtSynchronizeStream(stream), 107027)
    ended = acl.aclmdlRICaptureEnd(stream, byref(out))
    assert (ended == OK) == (out.value is not None)
    acl.check(acl.aclrtSynchronizeStream(stream))


def test_end_and_begin_out_of_order(acl: Acl, stream: int) -> None:
    out = ctypes.c_void_p()
    acl.expect(acl.aclmdlRICaptureEnd(stream, byref(out)), 107029)
    acl.expect(acl.aclmdlRICaptureEnd(stream, None), RT_PARAM_INVALID)
    acl.expect(acl.aclmdlRICaptureBegin(stream, 3), RT_PARAM_INVALID, "capture mode 3")
    acl.expect(acl.aclmdlRICaptureBegin(WILD, 0), RT_INVALID_HANDLE)
    acl.check(acl.aclmdlRICaptureBegin(stream, RELAXED))
    acl.expect(acl.aclmdlRICaptureBegin(stream, RELAXED), 107027)
    other = handle_of(acl.aclrtCreateStream)
    acl.expect(acl.aclmdlRICaptureEnd(other, byref(out)), 107029)
    acl.aclmdlRICaptureEnd(stream, byref(out))
    acl.expect(acl.aclmdlRICaptureGetInfo(stream, None, None), RT_PARAM_INVALID)


def test_default_stream_cannot_capture(acl: Acl) -> None:
    assert acl.aclmdlRICaptureBegin(None, RELAXED) != OK


def test_fork_must_be_joined(acl: Acl, stream: int, event: int) -> None:
    side, out = handle_of(acl.aclrtCreateStream), ctypes.c_void_p()
    acl.check(acl.aclmdlRICaptureBegin(stream, RELAXED))
    acl.check(acl.aclrtRecordEvent(event, stream))
    acl.check(acl.aclrtStreamWaitEvent(side, event))
    assert info(acl, side)[0] == 1
    acl.expect(acl.aclmdlRICaptureEnd(stream, byref(out)), 107025)
    assert out.value is None


def test_exchange_of_the_thread_mode(acl: Acl) -> None:
    mode = ctypes.c_int32(RELAXED)
    acl.check(acl.aclmdlRICaptureThreadExchangeMode(byref(mode)))
    assert mode.value == GLOBAL
    acl.check(acl.aclmdlRICaptureThreadExchangeMode(byref(mode)))
    assert mode.value == RELAXED
    mode.value = 7
    acl.expect(acl.aclmdlRICaptureThreadExchangeMode(byref(mode)), RT_PARAM_INVALID)
    acl.expect(acl.aclmdlRICaptureThreadExchangeMode(None), RT_PARAM_INVALID)


def test_task_group_update(acl: Acl, device_memory: Allocate, stream: int) -> None:
    first, second = device_memory(1), device_memory(1)
    updates = handle_of(acl.aclrtCreateStream)
    for address in (first, second):
        acl.check(acl.aclrtMemset(address, 1, 0, 1))
    acl.check(acl.aclmdlRICaptureBegin(stream, RELAXED))
    acl.check(acl.aclmdlRICaptureTaskGrpBegin(stream))
    acl.check(acl.aclrtMemsetAsync(first, 1, 7, 1, stream))
    group = handle_of(lambda out: acl.aclmdlRICaptureTaskGrpEnd(stream, out))
    graph = handle_of(lambda out: acl.aclmdlRICaptureEnd(stream, out))
    acl.check(acl.aclmdlRICaptureTaskUpdateBegin(updates, group))
    number = acl.aclrtMemsetAsync(second, 1, 9, 1, updates)
    ended = acl.aclmdlRICaptureTaskUpdateEnd(updates)
    acl.check(acl.aclmdlRIExecuteAsync(graph, stream))
    acl.check(acl.aclrtSynchronizeStream(stream))
    written = (byte_at(acl, first), byte_at(acl, second))
    # Whether a memset may be updated is the engine's rule; either way nothing is half done.
    assert written == ((0, 9) if number == ended == OK else (7, 0))


def test_wrong_task_groups(acl: Acl, stream: int) -> None:
    out = ctypes.c_void_p()
    assert acl.aclmdlRICaptureTaskGrpBegin(stream) != OK  # no capture
    acl.expect(acl.aclmdlRICaptureTaskGrpEnd(stream, None), RT_PARAM_INVALID)
    assert acl.aclmdlRICaptureTaskGrpEnd(stream, byref(out)) != OK
    acl.expect(acl.aclmdlRICaptureTaskUpdateBegin(stream, None), RT_PARAM_INVALID)
    assert acl.aclmdlRICaptureTaskUpdateBegin(stream, WILD) != OK
    assert acl.aclmdlRICaptureTaskUpdateEnd(stream) != OK


def test_names_and_ids(acl: Acl, device_memory: Allocate, stream: int) -> None:
    graph, other = (captured(acl, stream, device_memory(1)) for _ in range(2))
    ids = [ctypes.c_uint32() for _ in range(2)]
    for handle, number in zip((graph, other), ids, strict=True):
        acl.check(acl.aclmdlRIGetId(handle, byref(number)))
    assert ids[0].value != ids[1].value
    name = ctypes.create_string_buffer(128)
    acl.check(acl.aclmdlRISetName(graph, b"decode"))
    acl.check(acl.aclmdlRIGetName(graph, 128, name))
    assert name.value == b"decode"
    acl.expect(acl.aclmdlRIGetName(graph, 6, name), RT_ARRAY_TOO_SHORT, "needs 7")
    acl.expect(acl.aclmdlRISetName(graph, b"x" * 128), RT_PARAM_INVALID)
    acl.expect(acl.aclmdlRISetName(graph, None), RT_PARAM_INVALID)
    acl.expect(acl.aclmdlRIGetName(WILD, 128, name), RT_INVALID_HANDLE)
    acl.expect(acl.aclmdlRIGetId(graph, None), RT_PARAM_INVALID)


def test_dump(acl: Acl, device_memory: Allocate, stream: int, tmp_path: Path) -> None:
    graph = captured(acl, stream, device_memory(1))
    target = tmp_path / "graph.json"
    for flags in (0, 1):
        acl.check(acl.aclmdlRIDebugJsonPrint(graph, str(target).encode(), flags))
        assert json.loads(target.read_text())
    acl.check(acl.aclmdlRIDebugPrint(graph))
    acl.expect(acl.aclmdlRIDebugJsonPrint(graph, str(target).encode(), 2), RT_PARAM_INVALID)
    acl.expect(acl.aclmdlRIDebugJsonPrint(graph, None, 0), RT_PARAM_INVALID)
    assert acl.aclmdlRIDebugJsonPrint(graph, str(tmp_path / "no" / "x").encode(), 0) != OK


def test_destroy_callbacks(acl: Acl, device_memory: Allocate, stream: int) -> None:
    seen: list[int] = []
    callbacks = [
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data, i=i: seen.append((i, data)))
        for i in range(2)
    ]
    pointers = [ctypes.cast(c, ctypes.c_void_p) for c in callbacks]
    graph = captured(acl, stream, device_memory(1))
    for pointer in pointers:
        acl.check(acl.aclmdlRIDestroyRegisterCallback(graph, pointer, 42))
    acl.check(acl.aclmdlRIDestroyUnregisterCallback(graph, pointers[0]))
    assert acl.aclmdlRIDestroyUnregisterCallback(graph, pointers[0]) != OK
    acl.expect(acl.aclmdlRIDestroyRegisterCallback(graph, None, 0), RT_PARAM_INVALID)
    acl.check(acl.aclmdlRIDestroy(graph))
    assert seen == [(1, 42)]


class CondTaskParams(ctypes.Structure):
    _fields_ = (
        ("handle", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("size", ctypes.c_uint32),
        ("graphs", ctypes.POINTER(ctypes.c_void_p)),
    )


@pytest.mark.parametrize(("condition", "expected"), [(0, 0), (1, 7)])
def test_conditional_node(
    acl: Acl, device_memory: Allocate, stream: int, condition: int, expected: int
) -> None:
    address, body_stream = device_memory(1), handle_of(acl.aclrtCreateStream)
    add = acl.aclmdlRIAddCondTask
    add.argtypes = [CondTaskParams, ctypes.c_void_p, ctypes.c_uint32]
    acl.check(acl.aclrtMemset(address, 1, 0, 1))
    acl.check(acl.aclmdlRICaptureBegin(stream, RELAXED))
    graph = info(acl, stream)[1]
    handle = handle_of(lambda out: acl.aclmdlRICondHandleCreate(graph, condition, 1, out))
    assert handle_of(lambda out: acl.aclmdlRICondHandleGetCondPtr(handle, out))
    bodies = (ctypes.c_void_p * 1)()
    acl.expect(add(CondTaskParams(handle, 3, 1, bodies), stream, 0), RT_PARAM_INVALID, "type 3")
    acl.expect(add(CondTaskParams(handle, 0, 1, bodies), stream, 1), RT_PARAM_INVALID, "flags 1")
    acl.expect(add(CondTaskParams(WILD, 0, 1, bodies), stream, 0), RT_INVALID_HANDLE)
    acl.expect(add(CondTaskParams(handle, 0, 1, None), stream, 0), RT_PARAM_INVALID)
    acl.check(add(CondTaskParams(handle, 0, 1, bodies), stream, 0))
    acl.check(acl.aclmdlRICaptureToModelRIBegin(body_stream, bodies[0], RELAXED))
    acl.check(acl.aclrtMemsetAsync(address, 1, 7, 1, body_stream))
    assert handle_of(lambda out: acl.aclmdlRICaptureEnd(body_stream, out)) == bodies[0]
    assert handle_of(lambda out: acl.aclmdlRICaptureEnd(stream, out)) == graph
    acl.check(acl.aclmdlRIExecuteAsync(graph, stream))
    acl.check(acl.aclrtSynchronizeStream(stream))
    assert byte_at(acl, address) == expected


def test_wrong_conditions(acl: Acl, device_memory: Allocate, stream: int) -> None:
    out, graph = ctypes.c_void_p(), captured(acl, stream, device_memory(1))
    create = acl.aclmdlRICondHandleCreate
    acl.expect(create(graph, 0, 2, byref(out)), RT_PARAM_INVALID, "flag 2")
    acl.expect(create(WILD, 0, 0, byref(out)), RT_INVALID_HANDLE)
    acl.expect(create(graph, 0, 0, None), RT_PARAM_INVALID)
    acl.expect(acl.aclmdlRICondHandleGetCondPtr(WILD, byref(out)), RT_INVALID_HANDLE)
    acl.expect(acl.aclmdlRICondHandleGetCondPtr(WILD, None), RT_PARAM_INVALID)
    begin = acl.aclmdlRICaptureToModelRIBegin
    acl.expect(begin(stream, graph, RELAXED), RT_PARAM_INVALID, "not the body")
    acl.expect(begin(stream, graph, 9), RT_PARAM_INVALID)
    acl.expect(begin(stream, WILD, RELAXED), RT_INVALID_HANDLE)
