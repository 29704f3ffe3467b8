"""The table's capture column against the library: recorded, illegal, and what stays allowed."""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from softnpu import acltable
from tests.abi.acl_calls import (
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    OK,
    Acl,
    handle_of,
)

GLOBAL = 0
FUNCTIONS = {f.name: f for f in acltable.load() if f.level == "implemented"}
# Kernels are launched in test_kernel.py, which compiles one; conditions in test_model_ri.py.
ELSEWHERE = {
    "aclrtLaunchKernel",
    "aclrtLaunchKernelV2",
    "aclrtLaunchKernelWithHostArgs",
    "aclmdlRIAddCondTask",
    "aclrtLaunchCallback",
    "aclopCompileAndExecute",
    "aclopCompileAndExecuteV2",
}

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)


@dataclass
class Scene:
    """A stream that captures, and what a call may need."""

    acl: Acl
    stream: int
    event: int  # recorded in the capture
    memory: int
    pinned: int
    out: Any  # 64 bytes for whatever a query answers


@pytest.fixture
def scene(
    acl: Acl, stream: int, event: int, device_memory: Callable[[int], int],
    pinned: Callable[[int], int],
) -> Iterator[Scene]:  # fmt: skip
    memory = device_memory(64)
    acl.check(acl.aclrtMemset(memory, 64, 0, 64))
    acl.check(acl.aclmdlRICaptureBegin(stream, GLOBAL))
    acl.check(acl.aclrtRecordEvent(event, stream))
    out = ctypes.create_string_buffer(64)
    yield Scene(acl, stream, event, memory, pinned(64), out)
    graph = ctypes.c_void_p()
    acl.aclmdlRICaptureEnd(stream, ctypes.byref(graph))


def capturing(scene: Scene) -> int:
    graph = ctypes.c_void_p()
    scene.acl.check(scene.acl.aclmdlRICaptureGetInfo(scene.stream, None, ctypes.byref(graph)))
    assert graph.value is not None
    return graph.value


def still_captures(scene: Scene) -> bool:
    status = ctypes.c_int32()
    scene.acl.check(scene.acl.aclmdlRICaptureGetInfo(scene.stream, ctypes.byref(status), None))
    return status.value == 1


RECORDED: dict[str, Callable[[Scene], int]] = {
    "aclrtMemcpyAsync": lambda s: s.acl.aclrtMemcpyAsync(
        s.memory, 8, s.memory + 8, 8, DEVICE_TO_DEVICE, s.stream
    ),
    "aclrtMemcpy2dAsync": lambda s: s.acl.aclrtMemcpy2dAsync(
        s.memory, 8, s.pinned, 8, 4, 2, HOST_TO_DEVICE, s.stream
    ),
    "aclrtMemsetAsync": lambda s: s.acl.aclrtMemsetAsync(s.memory, 8, 1, 8, s.stream),
    "aclrtRecordEvent": lambda s: s.acl.aclrtRecordEvent(s.event, s.stream),
    "aclrtStreamWaitEvent": lambda s: s.acl.aclrtStreamWaitEvent(s.stream, s.event),
    "aclrtResetEvent": lambda s: s.acl.aclrtResetEvent(
        handle_of(s.acl.aclrtCreateEventWithFlag, 0x20), s.stream
    ),
    "aclrtValueWait": lambda s: s.acl.aclrtValueWait(s.memory, 0, 1, s.stream),
    "aclrtValueWrite": lambda s: s.acl.aclrtValueWrite(s.memory, 1, 0, s.stream),
    "aclrtLaunchHostFunc": lambda s: s.acl.aclrtLaunchHostFunc(
        s.stream, ctypes.cast(HOST_FUNCTION, ctypes.c_void_p), None
    ),
}

ILLEGAL: dict[str, Callable[[Scene], int]] = {
    "aclrtMemcpy": lambda s: s.acl.aclrtMemcpy(s.out, 8, s.memory, 8, DEVICE_TO_HOST),
    "aclrtMemcpy2d": lambda s: s.acl.aclrtMemcpy2d(s.out, 8, s.memory, 8, 4, 2, DEVICE_TO_HOST),
    "aclrtMemset": lambda s: s.acl.aclrtMemset(s.memory, 8, 0, 8),
    "aclrtSynchronizeStream": lambda s: s.acl.aclrtSynchronizeStream(s.stream),
    "aclrtSynchronizeStreamWithTimeout": lambda s: s.acl.aclrtSynchronizeStreamWithTimeout(
        s.stream, 100
    ),
    "aclrtSynchronizeDevice": lambda s: s.acl.aclrtSynchronizeDevice(),
    "aclrtSynchronizeDeviceWithTimeout": lambda s: s.acl.aclrtSynchronizeDeviceWithTimeout(100),
    "aclrtSynchronizeEvent": lambda s: s.acl.aclrtSynchronizeEvent(s.event),
    "aclrtSynchronizeEventWithTimeout": lambda s: s.acl.aclrtSynchronizeEventWithTimeout(
        s.event, 100
    ),
    "aclrtStreamQuery": lambda s: s.acl.aclrtStreamQuery(s.stream, s.out),
    "aclrtQueryEvent": lambda s: s.acl.aclrtQueryEvent(s.event, s.out),
    "aclrtQueryEventStatus": lambda s: s.acl.aclrtQueryEventStatus(s.event, s.out),
    "aclrtQueryEventWaitStatus": lambda s: s.acl.aclrtQueryEventWaitStatus(s.event, s.out),
    "aclrtEventElapsedTime": lambda s: s.acl.aclrtEventElapsedTime(s.out, s.event, s.event),
    "aclrtEventGetTimestamp": lambda s: s.acl.aclrtEventGetTimestamp(s.event, s.out),
    "aclmdlRIExecute": lambda s: s.acl.aclmdlRIExecute(capturing(s), 100),
    "aclmdlRIExecuteAsync": lambda s: s.acl.aclmdlRIExecuteAsync(capturing(s), s.stream),
}

# These end the capture, as its resources go; they are not refused.
ENDING = {"aclrtDestroyStream", "aclrtDestroyStreamForce", "aclrtResetDevice"}

# A selection of what torch_npu does inside a capture.
ALLOWED: dict[str, Callable[[Scene], int]] = {
    "aclrtMalloc": lambda s: s.acl.aclrtMalloc(s.out, 64, 0),
    "aclrtCreateStream": lambda s: s.acl.aclrtCreateStream(s.out),
    "aclrtCreateEventExWithFlag": lambda s: s.acl.aclrtCreateEventExWithFlag(s.out, 1),
    "aclrtSetDevice": lambda s: s.acl.aclrtSetDevice(1),
    "aclrtGetMemInfo": lambda s: s.acl.aclrtGetMemInfo(1, s.out, ctypes.byref(s.out, 8)),
    "aclrtStreamGetId": lambda s: s.acl.aclrtStreamGetId(s.stream, s.out),
    "aclmdlRIGetId": lambda s: s.acl.aclmdlRIGetId(capturing(s), s.out),
}


def names(rule: str) -> set[str]:
    return {name for name, function in FUNCTIONS.items() if function.capture == rule}


def test_every_rule_is_tested() -> None:
    assert names("recorded") - ELSEWHERE == set(RECORDED)
    assert names("illegal") - ELSEWHERE - ENDING == set(ILLEGAL)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(scene: Scene, name: str) -> None:
    scene.acl.check(RECORDED[name](scene))
    assert still_captures(scene)
    # Nothing has run: the memory is what it was before the capture.
    assert ctypes.string_at(scene.memory, 64) == bytes(64)


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal(scene: Scene, name: str) -> None:
    assert ILLEGAL[name](scene) != OK
    assert scene.acl.message().startswith(name)


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(scene: Scene, name: str) -> None:
    assert FUNCTIONS[name].capture in ("allowed", "query")
    scene.acl.check(ALLOWED[name](scene))
    assert still_captures(scene)


@pytest.mark.parametrize("name", sorted(ENDING))
def test_ending(scene: Scene, name: str) -> None:
    scene.acl.check(getattr(scene.acl, name)(1 if name == "aclrtResetDevice" else scene.stream))
