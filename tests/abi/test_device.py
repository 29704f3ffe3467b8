"""Devices, contexts, versions and limits: figures of the SoC, and every wrong argument."""

import ctypes
import os

import pytest

from softnpu import socs
from tests.abi.acl_calls import (
    DEVICE,
    FEATURE_UNSUPPORTED,
    OK,
    RT_CONTEXT_NULL,
    RT_INVALID_DEVICE,
    RT_INVALID_HANDLE,
    RT_PARAM_INVALID,
    Acl,
    handle_of,
)

byref = ctypes.byref


def test_device_of_this_thread(acl: Acl) -> None:
    index, count, mode = ctypes.c_int32(-1), ctypes.c_uint32(), ctypes.c_int32(-1)
    acl.check(acl.aclrtGetDevice(byref(index)))
    acl.check(acl.aclrtGetDeviceCount(byref(count)))
    acl.check(acl.aclrtGetRunMode(byref(mode)))
    assert (index.value, mode.value) == (DEVICE, 1)  # 1: the program runs on the host
    assert count.value >= 2
    for function in (acl.aclrtGetDevice, acl.aclrtGetDeviceCount, acl.aclrtGetRunMode):
        acl.expect(function(None), RT_PARAM_INVALID, "is null")


@pytest.mark.parametrize("index", [-1, 1000])
def test_no_such_device(acl: Acl, index: int) -> None:
    value = ctypes.c_int64()
    acl.expect(acl.aclrtSetDevice(index), RT_INVALID_DEVICE, f"no device {index}", "--devices")
    acl.expect(acl.aclrtResetDevice(index), RT_INVALID_DEVICE)
    acl.expect(acl.aclGetDeviceCapability(index & 0xFFFFFFFF, 0, byref(value)), RT_INVALID_DEVICE)
    acl.expect(acl.aclrtGetDeviceInfo(index & 0xFFFFFFFF, 101, byref(value)), RT_INVALID_DEVICE)


def test_capabilities_are_the_socs(acl: Acl) -> None:
    soc = socs.load()[acl.aclrtGetSocName().decode()]
    value = ctypes.c_int64()

    def capability(what: int) -> int:
        acl.check(acl.aclGetDeviceCapability(DEVICE, what, byref(value)))
        return value.value

    def info(what: int) -> int:
        acl.check(acl.aclrtGetDeviceInfo(DEVICE, what, byref(value)))
        return value.value

    assert [capability(what) for what in range(3)] == [soc.aic, soc.aiv, soc.l2]
    assert [info(what) for what in (101, 102, 201)] == [soc.aic, soc.aic, soc.aiv]
    assert [info(what) for what in (204, 302, 402, 501)] == [soc.ub, soc.l2, DEVICE, 0]
    assert (info(301), info(601)) == (soc.hbm, soc.npu_arch)
    acl.expect(acl.aclGetDeviceCapability(DEVICE, 9, byref(value)), RT_PARAM_INVALID, "9")
    acl.expect(acl.aclGetDeviceCapability(DEVICE, 0, None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtGetDeviceInfo(DEVICE, 7, byref(value)), FEATURE_UNSUPPORTED, "7")


def test_peers(acl: Acl) -> None:
    can = ctypes.c_int32(-1)
    acl.check(acl.aclrtDeviceCanAccessPeer(byref(can), 0, 1))
    assert can.value == 1
    acl.check(acl.aclrtDeviceCanAccessPeer(byref(can), 1, 1))
    assert can.value == 0
    acl.expect(acl.aclrtDeviceCanAccessPeer(byref(can), 0, 99), RT_INVALID_DEVICE)
    acl.check(acl.aclrtDeviceEnablePeerAccess(0, 0))
    acl.expect(acl.aclrtDeviceEnablePeerAccess(0, 1), RT_PARAM_INVALID, "flags 1")
    acl.expect(acl.aclrtDeviceEnablePeerAccess(DEVICE, 0), RT_PARAM_INVALID, "not a peer")


def test_identity(acl: Acl) -> None:
    uuids = []
    for index in (0, 1):
        uuid = ctypes.create_string_buffer(16)
        acl.check(acl.aclrtDeviceGetUuid(index, uuid))
        uuids.append(uuid.raw)
    assert uuids[0] != uuids[1]
    logic, pid = ctypes.c_int32(-1), ctypes.c_int32()
    acl.check(acl.aclrtGetLogicDevIdByUserDevId(1, byref(logic)))
    acl.check(acl.aclrtDeviceGetBareTgid(byref(pid)))
    assert (logic.value, pid.value) == (1, os.getpid())
    acl.expect(acl.aclrtGetLogicDevIdByUserDevId(99, byref(logic)), RT_INVALID_DEVICE)
    acl.expect(acl.aclrtDeviceGetUuid(0, None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtDeviceGetBareTgid(None), RT_PARAM_INVALID)


def test_primary_context_state(acl: Acl) -> None:
    flags, active = ctypes.c_uint32(9), ctypes.c_int32(-1)
    acl.check(acl.aclrtGetPrimaryCtxState(DEVICE, byref(flags), byref(active)))
    assert (flags.value, active.value) == (0, 1)
    acl.check(acl.aclrtResetDevice(DEVICE))
    acl.check(acl.aclrtGetPrimaryCtxState(DEVICE, None, byref(active)))
    assert active.value == 0
    acl.expect(acl.aclrtGetPrimaryCtxState(DEVICE, None, None), RT_PARAM_INVALID)


def test_synchronize_device(acl: Acl) -> None:
    acl.check(acl.aclrtSynchronizeDevice())
    acl.check(acl.aclrtSynchronizeDeviceWithTimeout(1000))
    acl.expect(acl.aclrtSynchronizeDeviceWithTimeout(-2), RT_PARAM_INVALID, "-2")


def test_no_hardware_errors(acl: Acl) -> None:
    count = ctypes.c_uint64(9)
    acl.check(acl.aclrtGetMemUceInfo(DEVICE, None, 0, byref(count)))
    assert count.value == 0
    acl.expect(acl.aclrtGetMemUceInfo(DEVICE, None, 4, byref(count)), RT_PARAM_INVALID)
    info = ctypes.create_string_buffer(b"\xff" * 256, 256)
    acl.check(acl.aclrtGetErrorVerbose(DEVICE, info))
    assert info.raw[:2] == b"\0\0" and info.raw[4:8] == b"\0\0\0\0"
    acl.expect(acl.aclrtGetErrorVerbose(DEVICE, None), RT_PARAM_INVALID)


def test_contexts(acl: Acl) -> None:
    primary = handle_of(acl.aclrtGetCurrentContext)
    other = handle_of(acl.aclrtCreateContext, DEVICE)
    acl.check(acl.aclrtSetCurrentContext(other))
    assert handle_of(acl.aclrtGetCurrentContext) == other
    acl.check(acl.aclrtSetCurrentContext(primary))
    acl.check(acl.aclrtDestroyContext(other))
    acl.expect(acl.aclrtSetCurrentContext(other), RT_INVALID_HANDLE, "no live context")
    acl.expect(acl.aclrtDestroyContext(other), RT_INVALID_HANDLE)
    acl.expect(acl.aclrtSetCurrentContext(None), RT_INVALID_HANDLE)
    acl.expect(acl.aclrtGetCurrentContext(None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtCreateContext(None, 0), RT_PARAM_INVALID)


def test_thread_without_a_device_is_told_what_to_do(acl: Acl) -> None:
    from threading import Thread

    seen: list[tuple[int, str]] = []

    def use() -> None:
        out = ctypes.c_void_p()
        for call in (acl.aclrtCreateStream, acl.aclrtGetCurrentContext):
            seen.append((call(byref(out)), acl.message()))
        seen.append((acl.aclrtSynchronizeStream(None), acl.message()))
        seen.append((acl.aclrtSynchronizeDevice(), acl.message()))

    thread = Thread(target=use)
    thread.start()
    thread.join()
    assert [number for number, _ in seen] == [RT_CONTEXT_NULL] * 4
    assert all("call aclrtSetDevice first" in text for _, text in seen)


def test_system_parameters(acl: Acl) -> None:
    value = ctypes.c_int64(-1)
    acl.check(acl.aclrtSetSysParamOpt(0, 1))
    acl.check(acl.aclrtCtxSetSysParamOpt(2, 1))
    acl.check(acl.aclrtGetSysParamOpt(0, byref(value)))
    assert value.value == 1
    acl.check(acl.aclrtSetSysParamOpt(0, 0))
    for call in (acl.aclrtSetSysParamOpt, acl.aclrtCtxSetSysParamOpt):
        acl.expect(call(3, 0), RT_PARAM_INVALID, "option 3")
    acl.expect(acl.aclrtGetSysParamOpt(3, byref(value)), RT_PARAM_INVALID)
    acl.expect(acl.aclrtGetSysParamOpt(0, None), RT_PARAM_INVALID)


def test_saturation_mode(acl: Acl) -> None:
    acl.check(acl.aclrtSetDeviceSatMode(1))
    acl.expect(acl.aclrtSetDeviceSatMode(0), FEATURE_UNSUPPORTED, "saturation")
    acl.expect(acl.aclrtSetDeviceSatMode(5), RT_PARAM_INVALID)


def test_core_limits_are_the_socs(acl: Acl, stream: int) -> None:
    soc = socs.load()[acl.aclrtGetSocName().decode()]
    value = ctypes.c_uint32()
    for kind, cores in ((0, soc.aic), (1, soc.aiv)):
        for call, which in ((acl.aclrtGetDeviceResLimit, DEVICE),
                            (acl.aclrtGetStreamResLimit, stream)):  # fmt: skip
            acl.check(call(which, kind, byref(value)))
            assert value.value == cores
        acl.check(acl.aclrtGetResInCurrentThread(kind, byref(value)))
        assert value.value == cores
    acl.check(acl.aclrtResetDeviceResLimit(DEVICE))
    acl.check(acl.aclrtResetStreamResLimit(stream))
    acl.expect(acl.aclrtGetResInCurrentThread(2, byref(value)), RT_PARAM_INVALID)
    acl.expect(acl.aclrtGetDeviceResLimit(DEVICE, 0, None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtGetDeviceResLimit(99, 0, byref(value)), RT_INVALID_DEVICE)
    acl.expect(acl.aclrtGetStreamResLimit(1, 0, byref(value)), RT_INVALID_HANDLE)


def test_last_error(acl: Acl) -> None:
    acl.aclrtGetLastError(0)
    assert acl.aclrtPeekAtLastError(0) == OK
    acl.expect(acl.aclrtSetDevice(99), RT_INVALID_DEVICE)
    assert acl.aclrtPeekAtLastError(0) == RT_INVALID_DEVICE
    assert acl.aclrtGetLastError(0) == RT_INVALID_DEVICE
    assert acl.aclrtGetLastError(0) == OK
    acl.expect(acl.aclrtGetLastError(1), RT_PARAM_INVALID, "level 1")
    acl.expect(acl.aclrtPeekAtLastError(1), RT_PARAM_INVALID)
    acl.aclrtGetLastError(0)
    # An operator's failure has a number of its own, which the runtime's must not hide.
    acl.library.softnpu_set_recent_error(b"aclnnAdd: no")
    assert (acl.aclrtPeekAtLastError(0), acl.aclGetRecentErrMsg()) == (OK, b"aclnnAdd: no")
