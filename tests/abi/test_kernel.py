"""Loading a compiled kernel, finding its function, launching it, and what goes wrong there."""

import ctypes
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from softnpu import layout
from tests.abi.acl_calls import (
    DEVICE_TO_HOST,
    FEATURE_UNSUPPORTED,
    OK,
    RT_INVALID_HANDLE,
    RT_PARAM_INVALID,
    Acl,
    handle_of,
)

Allocate = Callable[[int], int]

# Block b adds 1 to the b-th 32-bit number; "wild" reports a fault instead.
SOURCE = r"""
#include "launch_abi.h"
struct Args { int32_t* out; };
extern "C" int32_t softnpu_kernel_count(const SnLaunch* launch, uint32_t block) {
  static_cast<const Args*>(launch->args)->out[block] += 1;
  return 0;
}
extern "C" int32_t softnpu_kernel_wild(const SnLaunch* launch, uint32_t block) {
  launch->fault(launch, SN_FAULT_GM_RANGE, block, "AIV0", 0x10, "k.py:3:5", "read of 4 bytes");
  return 1;
}
"""


@pytest.fixture(scope="session")
def binary_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "k.cpp").write_text(SOURCE, encoding="utf-8")
    subprocess.run(
        ["g++", "-shared", "-fPIC", f"-I{layout.kernel_include_dir()}", "-o", folder / "k.so",
         folder / "k.cpp"],
        check=True,
    )  # fmt: skip
    return (folder / "k.so").read_bytes()


def load(acl: Acl, data: bytes) -> int:
    return handle_of(lambda out: acl.aclrtBinaryLoadFromData(data, len(data), None, out))


def function(acl: Acl, binary: int, name: bytes) -> int:
    return handle_of(lambda out: acl.aclrtBinaryGetFunction(binary, name, out))


def launches(acl: Acl) -> list[Callable[[Any, int, Any, int, int], int]]:
    """The three launch functions, with the order of arguments of the first."""
    return [
        acl.aclrtLaunchKernel,
        lambda f, n, args, size, s: acl.aclrtLaunchKernelV2(f, n, args, size, None, s),
        lambda f, n, args, size, s: acl.aclrtLaunchKernelWithHostArgs(
            f, n, s, None, args, size, None, 0
        ),
    ]


def test_every_launch_runs_every_block(
    acl: Acl, binary_bytes: bytes, device_memory: Allocate, stream: int
) -> None:
    binary = load(acl, binary_bytes)
    counters, kernel = device_memory(16), function(acl, binary, b"count")
    acl.check(acl.aclrtMemset(counters, 16, 0, 16))
    for launch in launches(acl):
        arguments = ctypes.c_void_p(counters)
        acl.check(launch(kernel, 4, ctypes.byref(arguments), 8, stream))
        arguments.value = 0  # the launch has its own copy
    acl.check(acl.aclrtSynchronizeStream(stream))
    host = (ctypes.c_int32 * 4)()
    acl.check(acl.aclrtMemcpy(host, 16, counters, 16, DEVICE_TO_HOST))
    assert list(host) == [3] * 4
    acl.check(acl.aclrtBinaryUnLoad(binary))
    out = ctypes.c_void_p()
    acl.expect(acl.aclrtBinaryUnLoad(binary), RT_INVALID_HANDLE, "no loaded kernel binary")
    acl.expect(acl.aclrtBinaryGetFunction(binary, b"count", ctypes.byref(out)), RT_INVALID_HANDLE)
    acl.expect(launches(acl)[0](kernel, 4, host, 8, stream), RT_INVALID_HANDLE)


def test_wrong_binaries(acl: Acl, binary_bytes: bytes) -> None:
    out, load_data = ctypes.c_void_p(), acl.aclrtBinaryLoadFromData
    acl.expect(load_data(None, 8, None, ctypes.byref(out)), RT_PARAM_INVALID)
    acl.expect(load_data(b"x", 0, None, ctypes.byref(out)), RT_PARAM_INVALID)
    acl.expect(load_data(b"x", 1, None, None), RT_PARAM_INVALID)
    options = (ctypes.c_uint64 * 2)(0, 1)
    acl.expect(load_data(b"x", 1, options, ctypes.byref(out)), RT_PARAM_INVALID, "options")
    acl.expect(load_data(b"not an object", 13, None, ctypes.byref(out)), 107044)
    binary = load(acl, binary_bytes)
    acl.expect(acl.aclrtBinaryGetFunction(binary, b"absent", ctypes.byref(out)), 107044, "absent")
    acl.expect(acl.aclrtBinaryGetFunction(binary, None, ctypes.byref(out)), RT_PARAM_INVALID)
    acl.expect(acl.aclrtBinaryGetFunction(binary, b"count", None), RT_PARAM_INVALID)


def test_wrong_launches(
    acl: Acl, binary_bytes: bytes, device_memory: Allocate, stream: int
) -> None:
    kernel = function(acl, load(acl, binary_bytes), b"count")
    arguments = ctypes.c_void_p(device_memory(16))
    place = ctypes.byref(arguments)
    for launch in launches(acl):
        acl.expect(launch(None, 1, place, 8, stream), RT_INVALID_HANDLE, "no kernel function")
        acl.expect(launch(0x1234, 1, place, 8, stream), RT_INVALID_HANDLE)
        acl.expect(launch(kernel, 1, None, 8, stream), RT_PARAM_INVALID)
        acl.expect(launch(kernel, 1, place, 8, 0x1234), RT_INVALID_HANDLE)
        assert launch(kernel, 0, place, 8, stream) != OK
        assert launch(kernel, 65536, place, 8, stream) != OK
    attributes = (ctypes.c_uint64 * 2)(0, 1)
    with_host, holders = acl.aclrtLaunchKernelWithHostArgs, (ctypes.c_uint32 * 2)()
    acl.expect(acl.aclrtLaunchKernelV2(kernel, 1, place, 8, attributes, stream), RT_PARAM_INVALID)
    acl.expect(with_host(kernel, 1, stream, attributes, place, 8, None, 0), RT_PARAM_INVALID)
    acl.expect(with_host(kernel, 1, stream, None, place, 8, None, 1), RT_PARAM_INVALID)
    acl.expect(
        with_host(kernel, 1, stream, None, place, 8, holders, 1),
        FEATURE_UNSUPPORTED,
        "placeholders",
    )


def test_fault_is_sticky_until_reset(
    acl: Acl, binary_bytes: bytes, device_memory: Allocate, stream: int
) -> None:
    kernel, address = function(acl, load(acl, binary_bytes), b"wild"), device_memory(4)
    host, status = ctypes.create_string_buffer(4), ctypes.c_int32()
    acl.check(acl.aclrtLaunchKernel(kernel, 1, None, 0, stream))
    for _ in range(2):
        acl.expect(acl.aclrtSynchronizeStream(stream), 507015, "wild", "k.py:3:5", "0x10")
    # Every way to look at results fails with the first error, in other streams too.
    for call in (
        acl.aclrtSynchronizeDevice,
        lambda: acl.aclrtSynchronizeStream(None),
        lambda: acl.aclrtStreamQuery(stream, ctypes.byref(status)),
        lambda: acl.aclrtMemcpy(host, 4, address, 4, DEVICE_TO_HOST),
    ):
        acl.expect(call(), 507015, "wild")
    verbose = (ctypes.c_uint32 * 64)()
    acl.check(acl.aclrtGetErrorVerbose(1, verbose))
    assert verbose[1] == 65535
    acl.check(acl.aclrtResetDevice(1))
    acl.check(acl.aclrtSetDevice(1))
    acl.check(acl.aclrtSynchronizeDevice())
