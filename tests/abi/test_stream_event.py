"""Streams, events, value tasks and callbacks, and their wrong arguments."""

import ctypes
import threading
import time
from collections.abc import Callable

import pytest

from tests.abi.acl_calls import (
    DEVICE_TO_HOST,
    FEATURE_UNSUPPORTED,
    OK,
    RT_INVALID_HANDLE,
    RT_PARAM_INVALID,
    Acl,
    handle_of,
)

byref = ctypes.byref
Allocate = Callable[[int], int]
HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
WILD = 0x1234


def as_pointer(function: object) -> ctypes.c_void_p:
    return ctypes.cast(function, ctypes.c_void_p)  # type: ignore[arg-type]


def idle(acl: Acl, stream: int) -> bool:
    status = ctypes.c_int32(-1)
    acl.check(acl.aclrtStreamQuery(stream, byref(status)))
    return status.value == 0


def test_create_and_destroy(acl: Acl) -> None:
    plain = handle_of(acl.aclrtCreateStream)
    configured = handle_of(acl.aclrtCreateStreamWithConfig, 7, 0x3F)
    ids = []
    for stream in (plain, configured):
        number = ctypes.c_int32(-1)
        acl.check(acl.aclrtStreamGetId(stream, byref(number)))
        ids.append(number.value)
    assert ids[0] != ids[1]
    acl.check(acl.aclrtDestroyStream(plain))
    acl.check(acl.aclrtDestroyStreamForce(configured))
    for call in (acl.aclrtDestroyStream, acl.aclrtDestroyStreamForce, acl.aclrtSynchronizeStream):
        acl.expect(call(plain), RT_INVALID_HANDLE, "no live stream")
    acl.expect(acl.aclrtDestroyStream(None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtDestroyStreamForce(None), RT_PARAM_INVALID)


def test_wrong_stream_arguments(acl: Acl, stream: int) -> None:
    out, number = ctypes.c_void_p(), ctypes.c_int32()
    create = acl.aclrtCreateStreamWithConfig
    acl.expect(acl.aclrtCreateStream(None), RT_PARAM_INVALID, "stream is null")
    acl.expect(create(None, 0, 0), RT_PARAM_INVALID)
    acl.expect(create(byref(out), 8, 0), RT_PARAM_INVALID, "priority 8")
    acl.expect(create(byref(out), 0, 0x40), RT_PARAM_INVALID, "unknown bits")
    acl.expect(acl.aclrtStreamQuery(WILD, byref(number)), RT_INVALID_HANDLE)
    acl.expect(acl.aclrtStreamQuery(stream, None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtStreamGetId(stream, None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtSynchronizeStreamWithTimeout(stream, -2), RT_PARAM_INVALID)
    acl.expect(acl.aclrtGetStreamAvailableNum(None), RT_PARAM_INVALID)


def test_available_streams(acl: Acl) -> None:
    before, after = ctypes.c_uint32(), ctypes.c_uint32()
    acl.check(acl.aclrtGetStreamAvailableNum(byref(before)))
    handle_of(acl.aclrtCreateStream)
    acl.check(acl.aclrtGetStreamAvailableNum(byref(after)))
    assert after.value == before.value - 1


def test_stream_modes(acl: Acl, stream: int) -> None:
    flag, value = ctypes.c_uint32(9), ctypes.c_uint64()
    set_attribute = acl.aclrtSetStreamAttribute
    acl.check(acl.aclrtSetStreamFailureMode(stream, 1))
    acl.expect(acl.aclrtSetStreamFailureMode(stream, 0), FEATURE_UNSUPPORTED, "CONTINUE")
    acl.expect(acl.aclrtSetStreamFailureMode(stream, 2), RT_PARAM_INVALID)
    acl.expect(acl.aclrtSetStreamFailureMode(None, 1), RT_PARAM_INVALID)
    acl.check(acl.aclrtSetStreamOverflowSwitch(stream, 0))
    acl.expect(acl.aclrtSetStreamOverflowSwitch(stream, 1), FEATURE_UNSUPPORTED, "overflow")
    acl.expect(acl.aclrtSetStreamOverflowSwitch(stream, 2), RT_PARAM_INVALID)
    acl.check(acl.aclrtGetStreamOverflowSwitch(stream, byref(flag)))
    assert flag.value == 0
    acl.expect(acl.aclrtGetStreamOverflowSwitch(stream, None), RT_PARAM_INVALID)
    value.value = 1
    acl.check(set_attribute(stream, 4, byref(value)))  # shapes of operators
    acl.check(set_attribute(stream, 1, byref(value)))  # stop at the first failure
    acl.expect(set_attribute(stream, 2, byref(value)), FEATURE_UNSUPPORTED, "overflow")
    acl.expect(set_attribute(stream, 3, byref(value)), FEATURE_UNSUPPORTED, "attribute 3")
    acl.expect(set_attribute(stream, 9, byref(value)), RT_PARAM_INVALID, "attribute 9")
    acl.expect(set_attribute(stream, 4, None), RT_PARAM_INVALID)


def test_operator_timeouts_are_accepted(acl: Acl) -> None:
    actual = ctypes.c_uint64()
    acl.check(acl.aclrtSetOpWaitTimeout(10))
    acl.check(acl.aclrtSetOpExecuteTimeOut(10))
    acl.check(acl.aclrtSetOpExecuteTimeOutV2(5000, byref(actual)))
    assert actual.value == 5000
    acl.expect(acl.aclrtSetOpExecuteTimeOutV2(5000, None), RT_PARAM_INVALID)


@pytest.mark.parametrize("wait_first", [False, True])
def test_values_order_streams(
    acl: Acl, device_memory: Allocate, stream: int, wait_first: bool
) -> None:
    other, cell = handle_of(acl.aclrtCreateStream), device_memory(8)
    acl.check(acl.aclrtMemset(cell, 8, 0, 8))
    if wait_first:
        acl.check(acl.aclrtValueWait(cell, 1, 1, other))
        assert not idle(acl, other)
        acl.check(acl.aclrtValueWrite(cell, 1, 0, stream))
    else:
        acl.check(acl.aclrtValueWrite(cell, 1, 0, stream))
        acl.check(acl.aclrtValueWait(cell, 1, 1, other))
    acl.check(acl.aclrtSynchronizeStreamWithTimeout(other, 5000))
    value = ctypes.c_uint64()
    acl.check(acl.aclrtMemcpy(byref(value), 8, cell, 8, DEVICE_TO_HOST))
    assert value.value == 1


def test_wrong_values(acl: Acl, device_memory: Allocate, stream: int) -> None:
    cell = device_memory(8)
    acl.expect(acl.aclrtValueWait(cell, 1, 4, stream), RT_PARAM_INVALID, "flag 4")
    acl.expect(acl.aclrtValueWait(None, 1, 1, stream), RT_PARAM_INVALID)
    acl.expect(acl.aclrtValueWrite(cell, 1, 1, stream), RT_PARAM_INVALID, "flag 1")
    acl.expect(acl.aclrtValueWrite(None, 1, 0, stream), RT_PARAM_INVALID)
    assert acl.aclrtValueWrite(ctypes.addressof(ctypes.c_uint64()), 1, 0, stream) != OK


def test_synchronize_runs_out_of_time(acl: Acl, device_memory: Allocate, stream: int) -> None:
    cell = device_memory(8)
    acl.check(acl.aclrtMemset(cell, 8, 0, 8))
    acl.check(acl.aclrtValueWait(cell, 1, 1, stream))
    acl.expect(acl.aclrtSynchronizeStreamWithTimeout(stream, 20), 507046)
    acl.check(acl.aclrtValueWrite(cell, 1, 0, None))
    acl.check(acl.aclrtSynchronizeStream(stream))


def test_events_order_streams(acl: Acl, stream: int, event: int) -> None:
    other = handle_of(acl.aclrtCreateStream)
    acl.check(acl.aclrtRecordEvent(event, stream))
    acl.check(acl.aclrtStreamWaitEvent(other, event))
    acl.check(acl.aclrtSynchronizeStream(other))
    acl.check(acl.aclrtSynchronizeEvent(event))
    acl.check(acl.aclrtSynchronizeEventWithTimeout(event, 1000))
    status = ctypes.c_int32(-1)
    for query, complete in (
        (acl.aclrtQueryEvent, 0),
        (acl.aclrtQueryEventStatus, 1),
        (acl.aclrtQueryEventWaitStatus, 0),
    ):
        acl.check(query(event, byref(status)))
        assert status.value == complete
        acl.expect(query(event, None), RT_PARAM_INVALID)
        acl.expect(query(WILD, byref(status)), RT_INVALID_HANDLE, "no live event")


def test_event_that_is_not_ready(
    acl: Acl, device_memory: Allocate, stream: int, event: int
) -> None:
    cell = device_memory(8)
    acl.check(acl.aclrtMemset(cell, 8, 0, 8))
    acl.check(acl.aclrtValueWait(cell, 1, 1, stream))
    acl.check(acl.aclrtRecordEvent(event, stream))
    status = ctypes.c_int32(-1)
    for query, not_ready in ((acl.aclrtQueryEvent, 1), (acl.aclrtQueryEventStatus, 0)):
        acl.check(query(event, byref(status)))
        assert status.value == not_ready
    acl.expect(acl.aclrtSynchronizeEventWithTimeout(event, 20), 507047)
    acl.check(acl.aclrtValueWrite(cell, 1, 0, None))
    acl.check(acl.aclrtSynchronizeEvent(event))


def test_elapsed_time(acl: Acl, stream: int) -> None:
    start, end = (handle_of(acl.aclrtCreateEventWithFlag, 9) for _ in range(2))
    sleep = HostFunction(lambda _: time.sleep(0.02))
    acl.check(acl.aclrtRecordEvent(start, stream))
    acl.check(acl.aclrtLaunchHostFunc(stream, as_pointer(sleep), None))
    acl.check(acl.aclrtRecordEvent(end, stream))
    acl.check(acl.aclrtSynchronizeEvent(end))
    elapsed, stamp = ctypes.c_float(), ctypes.c_uint64()
    acl.check(acl.aclrtEventElapsedTime(byref(elapsed), start, end))
    assert elapsed.value >= 20
    acl.check(acl.aclrtEventGetTimestamp(end, byref(stamp)))
    assert stamp.value > 0
    acl.expect(acl.aclrtEventElapsedTime(None, start, end), RT_PARAM_INVALID)
    acl.expect(acl.aclrtEventElapsedTime(byref(elapsed), WILD, end), RT_INVALID_HANDLE)
    acl.expect(acl.aclrtEventGetTimestamp(end, None), RT_PARAM_INVALID)


def test_elapsed_time_needs_records(acl: Acl, event: int) -> None:
    elapsed, stamp = ctypes.c_float(), ctypes.c_uint64()
    acl.expect(acl.aclrtEventElapsedTime(byref(elapsed), event, event), 107006)
    acl.expect(acl.aclrtEventGetTimestamp(event, byref(stamp)), 107006)


def test_event_flags(acl: Acl, stream: int) -> None:
    out, available = ctypes.c_void_p(), ctypes.c_uint32()
    for create in (acl.aclrtCreateEventWithFlag, acl.aclrtCreateEventExWithFlag):
        acl.expect(create(byref(out), 0x100), RT_PARAM_INVALID, "unknown bits")
        # torch_npu takes this number for "no events between processes".
        acl.expect(create(byref(out), 0x40), 207000, "ACL_EVENT_IPC")
        acl.expect(create(None, 1), RT_PARAM_INVALID)
    acl.expect(acl.aclrtCreateEvent(None), RT_PARAM_INVALID)
    event = handle_of(acl.aclrtCreateEvent)
    acl.check(acl.aclrtRecordEvent(event, stream))
    acl.check(acl.aclrtResetEvent(event, stream))
    acl.check(acl.aclrtDestroyEvent(event))
    for call in (acl.aclrtDestroyEvent, acl.aclrtSynchronizeEvent):
        acl.expect(call(event), RT_INVALID_HANDLE)
        acl.expect(call(None), RT_INVALID_HANDLE, "event is null")
    acl.expect(acl.aclrtRecordEvent(event, stream), RT_INVALID_HANDLE)
    acl.expect(acl.aclrtResetEvent(event, stream), RT_INVALID_HANDLE)
    acl.expect(acl.aclrtStreamWaitEvent(stream, event), RT_INVALID_HANDLE)
    acl.check(acl.aclrtGetEventAvailNum(byref(available)))
    assert available.value > 1000
    acl.expect(acl.aclrtGetEventAvailNum(None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtSynchronizeEventWithTimeout(WILD, -2), RT_PARAM_INVALID)


def test_host_function_runs_in_stream_order(acl: Acl, device_memory: Allocate, stream: int) -> None:
    seen: list[bytes] = []
    address = device_memory(1)
    # The function looks at device memory, which lies in this process.
    look = HostFunction(lambda _: seen.append(ctypes.string_at(address, 1)))
    for value in (1, 2):
        acl.check(acl.aclrtMemsetAsync(address, 1, value, 1, stream))
        acl.check(acl.aclrtLaunchHostFunc(stream, as_pointer(look), None))
    acl.check(acl.aclrtSynchronizeStream(stream))
    assert seen == [b"\1", b"\2"]
    acl.expect(acl.aclrtLaunchHostFunc(stream, None, None), RT_PARAM_INVALID, "fn is null")
    acl.expect(acl.aclrtLaunchHostFunc(WILD, as_pointer(look), None), RT_INVALID_HANDLE)


def test_callbacks_run_in_the_subscribed_thread(acl: Acl, stream: int) -> None:
    threads: list[int] = []
    done = threading.Event()
    callback = HostFunction(lambda _: threads.append(threading.get_native_id()))

    def serve() -> None:
        while not done.is_set():
            acl.aclrtProcessReport(50)

    server = threading.Thread(target=serve)
    server.start()
    assert server.ident is not None
    acl.check(acl.aclrtSubscribeReport(server.ident, stream))
    acl.check(acl.aclrtLaunchCallback(as_pointer(callback), None, 1, stream))
    acl.check(acl.aclrtSynchronizeStream(stream))
    acl.check(acl.aclrtUnSubscribeReport(server.ident, stream))
    done.set()
    server.join()
    assert threads == [server.native_id]
    assert acl.aclrtUnSubscribeReport(server.ident, stream) != OK


def test_wrong_callbacks(acl: Acl, stream: int) -> None:
    callback = as_pointer(HostFunction(lambda _: None))
    launch = acl.aclrtLaunchCallback
    acl.expect(launch(callback, None, 1, stream), 107015)  # nobody subscribed
    acl.expect(launch(callback, None, 2, stream), RT_PARAM_INVALID, "blockType 2")
    acl.expect(launch(None, None, 1, stream), RT_PARAM_INVALID)
    acl.expect(acl.aclrtProcessReport(-2), RT_PARAM_INVALID)
    assert acl.aclrtProcessReport(1) != OK  # this thread did not subscribe
    acl.expect(acl.aclrtSubscribeReport(1, WILD), RT_INVALID_HANDLE)
