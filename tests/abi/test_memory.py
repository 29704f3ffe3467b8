"""Device and pinned memory, copies and fills, and their wrong arguments."""

import ctypes
from collections.abc import Callable

import pytest

from tests.abi.acl_calls import (
    DEFAULT,
    DEVICE,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    FEATURE_UNSUPPORTED,
    HOST_TO_DEVICE,
    HOST_TO_HOST,
    OK,
    RT_INVALID_DEVICE,
    RT_INVALID_HANDLE,
    RT_MEMORY_ALLOCATION,
    RT_PARAM_INVALID,
    Acl,
    handle_of,
)

byref = ctypes.byref
Allocate = Callable[[int], int]


def read(acl: Acl, address: int, size: int) -> bytes:
    host = ctypes.create_string_buffer(size)
    acl.check(acl.aclrtMemcpy(host, size, address, size, DEVICE_TO_HOST))
    return host.raw


@pytest.mark.parametrize("name", ["aclrtMalloc", "aclrtMallocAlign32"])
def test_allocation(acl: Acl, name: str) -> None:
    allocate = getattr(acl, name)
    address = handle_of(allocate, 1000, 0)
    assert address % 32 == 0
    acl.check(acl.aclrtFree(address))
    out = ctypes.c_void_p()
    acl.expect(allocate(None, 8, 0), RT_PARAM_INVALID, "devPtr is null")
    acl.expect(allocate(byref(out), 0, 0), RT_PARAM_INVALID, "size is 0")
    acl.expect(allocate(byref(out), 8, 0x20000), RT_PARAM_INVALID, "policy 131072")
    # These words are what torch_npu tells an out-of-memory error by.
    acl.expect(allocate(byref(out), 1 << 50, 0), RT_MEMORY_ALLOCATION, "EL0004")
    assert out.value is None


def test_free_of_what_is_not_allocated(acl: Acl, device_memory: Allocate) -> None:
    address = device_memory(64)
    acl.check(acl.aclrtFree(address))
    acl.expect(acl.aclrtFree(address), 207002, "not device memory")
    acl.expect(acl.aclrtFree(None), RT_PARAM_INVALID)


def test_memory_info(acl: Acl, device_memory: Allocate) -> None:
    free, total, later = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    acl.check(acl.aclrtGetMemInfo(1, byref(free), byref(total)))
    assert 0 < free.value <= total.value
    device_memory(1 << 20)
    acl.check(acl.aclrtGetMemInfo(1, byref(later), byref(total)))
    assert later.value <= free.value
    acl.check(acl.aclrtGetMemInfo(0, byref(free), byref(total)))  # DDR: these chips have none
    assert (free.value, total.value) == (0, 0)
    acl.expect(acl.aclrtGetMemInfo(99, byref(free), byref(total)), RT_PARAM_INVALID)
    acl.expect(acl.aclrtGetMemInfo(1, None, byref(total)), RT_PARAM_INVALID)


def test_pinned_memory(acl: Acl) -> None:
    plain = handle_of(acl.aclrtMallocHost, 64)
    attribute = (ctypes.c_uint64 * 2)(3, 1)  # the VA flag
    configuration = (ctypes.c_uint64 * 2)(ctypes.addressof(attribute), 1)
    configured = handle_of(acl.aclrtMallocHostWithCfg, 64, configuration)
    for address in (plain, configured):
        acl.check(acl.aclrtFreeHost(address))
        assert acl.aclrtFreeHost(address) != OK
    out = ctypes.c_void_p()
    attribute[0] = 1  # a module id
    acl.expect(acl.aclrtMallocHostWithCfg(byref(out), 64, configuration), FEATURE_UNSUPPORTED, "1")
    for call in (acl.aclrtMallocHost, lambda p, n: acl.aclrtMallocHostWithCfg(p, n, None)):
        acl.expect(call(None, 8), RT_PARAM_INVALID)
        acl.expect(call(byref(out), 0), RT_PARAM_INVALID)
    acl.expect(acl.aclrtFreeHost(None), RT_PARAM_INVALID)


def test_registered_host_memory(acl: Acl) -> None:
    host = ctypes.create_string_buffer(8192)
    address = ctypes.addressof(host)
    assert handle_of(lambda out: acl.aclrtHostRegister(address, 8192, 0, out)) == address
    acl.check(acl.aclrtHostUnregister(address))
    assert acl.aclrtHostUnregister(address) != OK
    acl.check(acl.aclrtHostRegisterV2(address, 8192, 2))
    acl.check(acl.aclrtHostUnregister(address))
    out = ctypes.c_void_p()
    acl.expect(acl.aclrtHostRegister(address, 8192, 3, byref(out)), RT_PARAM_INVALID, "type 3")
    acl.expect(acl.aclrtHostRegister(None, 8192, 0, byref(out)), RT_PARAM_INVALID)
    acl.expect(acl.aclrtHostRegisterV2(address, 8192, 1), RT_PARAM_INVALID, "flag 1")
    acl.expect(acl.aclrtHostRegisterV2(address, 0, 2), RT_PARAM_INVALID)
    acl.expect(acl.aclrtHostUnregister(None), RT_PARAM_INVALID)


def test_pointer_attributes(acl: Acl, device_memory: Allocate, pinned: Allocate) -> None:
    def location(address: int) -> tuple[int, int]:
        out = (ctypes.c_uint32 * 7)()
        acl.check(acl.aclrtPointerGetAttributes(address, out))
        return out[0], out[1]

    pageable = ctypes.create_string_buffer(8)
    assert location(device_memory(64) + 63) == (DEVICE, 1)
    assert location(pinned(64))[1] == 0
    assert location(ctypes.addressof(pageable))[1] == 2
    acl.expect(acl.aclrtPointerGetAttributes(None, pageable), RT_PARAM_INVALID)
    acl.expect(acl.aclrtPointerGetAttributes(pageable, None), RT_PARAM_INVALID)


def test_copies_in_all_directions(acl: Acl, device_memory: Allocate) -> None:
    first, second = device_memory(16), device_memory(16)
    source, target = b"0123456789abcdef", ctypes.create_string_buffer(16)
    acl.check(acl.aclrtMemcpy(first, 16, source, 16, HOST_TO_DEVICE))
    acl.check(acl.aclrtMemcpy(second, 16, first, 16, DEVICE_TO_DEVICE))
    acl.check(acl.aclrtMemcpy(target, 16, second, 16, DEVICE_TO_HOST))
    assert target.raw == source
    acl.check(acl.aclrtMemcpy(target, 16, source, 4, HOST_TO_HOST))
    acl.check(acl.aclrtMemcpy(second, 16, target, 16, DEFAULT))
    assert read(acl, second, 16) == source


def test_wrong_copies(acl: Acl, device_memory: Allocate, stream: int) -> None:
    address, host = device_memory(16), ctypes.create_string_buffer(64)
    acl.expect(acl.aclrtMemcpy(address, 16, host, 16, 8), RT_PARAM_INVALID, "kind 8")
    assert acl.aclrtMemcpy(address, 8, host, 16, HOST_TO_DEVICE) != OK  # more than destMax
    assert acl.aclrtMemcpy(address, 64, host, 64, HOST_TO_DEVICE) != OK  # past the allocation
    assert acl.aclrtMemcpy(None, 16, host, 16, HOST_TO_DEVICE) != OK
    acl.expect(acl.aclrtMemcpyAsync(address, 16, host, 16, -1, stream), RT_PARAM_INVALID, "kind")
    acl.expect(
        acl.aclrtMemcpyAsync(address, 16, host, 16, HOST_TO_DEVICE, 12345), RT_INVALID_HANDLE
    )


@pytest.mark.parametrize("default_stream", [False, True])
def test_asynchronous_copy_and_fill(
    acl: Acl, device_memory: Allocate, pinned: Allocate, stream: int, default_stream: bool
) -> None:
    queue = None if default_stream else stream
    address, host = device_memory(16), pinned(16)
    ctypes.memset(host, 7, 16)
    acl.check(acl.aclrtMemcpyAsync(address, 16, host, 16, HOST_TO_DEVICE, queue))
    acl.check(acl.aclrtMemsetAsync(address, 4, 1, 4, queue))
    acl.check(acl.aclrtMemcpyAsync(host, 16, address, 16, DEVICE_TO_HOST, queue))
    acl.check(acl.aclrtSynchronizeStream(queue))
    assert ctypes.string_at(host, 16) == b"\1" * 4 + b"\7" * 12


def test_fill(acl: Acl, device_memory: Allocate) -> None:
    address = device_memory(16)
    acl.check(acl.aclrtMemset(address, 16, 0x5A, 16))
    assert read(acl, address, 16) == b"\x5a" * 16
    assert acl.aclrtMemset(address, 8, 0, 16) != OK
    assert acl.aclrtMemset(None, 16, 0, 16) != OK


def test_copy_of_rows(acl: Acl, device_memory: Allocate, pinned: Allocate, stream: int) -> None:
    address, host = device_memory(64), pinned(32)
    ctypes.memmove(host, bytes(range(32)), 32)
    acl.check(acl.aclrtMemset(address, 64, 0, 64))
    # Two rows of 8 bytes: every 16 in the source, every 32 in the target.
    acl.check(acl.aclrtMemcpy2d(address, 32, host, 16, 8, 2, HOST_TO_DEVICE))
    expected = bytes(range(8)) + bytes(24) + bytes(range(16, 24)) + bytes(24)
    assert read(acl, address, 64) == expected
    acl.check(acl.aclrtMemset(address, 64, 0, 64))
    acl.check(acl.aclrtMemcpy2dAsync(address, 32, host, 16, 8, 2, HOST_TO_DEVICE, stream))
    acl.check(acl.aclrtSynchronizeStream(stream))
    assert read(acl, address, 64) == expected
    assert acl.aclrtMemcpy2d(address, 4, host, 16, 8, 2, HOST_TO_DEVICE) != OK  # pitch < width
    acl.expect(acl.aclrtMemcpy2dAsync(address, 32, host, 16, 8, 2, 9, stream), RT_PARAM_INVALID)


def test_cache_operations(acl: Acl, device_memory: Allocate, stream: int) -> None:
    address, host = device_memory(64), ctypes.create_string_buffer(8)
    acl.check(acl.aclrtCmoAsync(address, 64, 0, stream))
    acl.expect(acl.aclrtCmoAsync(address, 64, 4, stream), RT_PARAM_INVALID)
    acl.expect(acl.aclrtCmoAsync(None, 64, 0, stream), RT_PARAM_INVALID)
    acl.expect(acl.aclrtCmoAsync(host, 8, 0, stream), RT_PARAM_INVALID, "not device memory")


def test_virtual_memory(acl: Acl) -> None:
    size = 2 << 20
    # handle type, allocation type, HBM huge pages, location (id, type), reserve
    properties = (ctypes.c_uint32 * 8)(0, 0, 4, DEVICE, 1, 0, 0, 0)
    base = handle_of(acl.aclrtReserveMemAddress, 2 * size, 0, None, 1)
    block = handle_of(acl.aclrtMallocPhysical, size, properties, 0)
    acl.check(acl.aclrtMapMem(base, size, 0, block, 0))
    acl.check(acl.aclrtMemset(base, size, 3, 64))
    assert read(acl, base, 4) == b"\3" * 4
    assert acl.aclrtMemset(base + size, size, 3, 64) != OK  # reserved, but nothing there
    acl.check(acl.aclrtUnmapMem(base))
    acl.check(acl.aclrtFreePhysical(block))
    acl.check(acl.aclrtReleaseMemAddress(base))
    assert acl.aclrtReleaseMemAddress(base) != OK
    assert acl.aclrtUnmapMem(base) != OK


def test_wrong_virtual_memory(acl: Acl) -> None:
    out = ctypes.c_void_p()
    reserve, physical = acl.aclrtReserveMemAddress, acl.aclrtMallocPhysical
    acl.expect(reserve(None, 4096, 0, None, 0), RT_PARAM_INVALID)
    acl.expect(reserve(byref(out), 0, 0, None, 0), RT_PARAM_INVALID)
    acl.expect(reserve(byref(out), 4096, 3, None, 0), RT_PARAM_INVALID, "alignment 3")
    acl.expect(reserve(byref(out), 4096, 0, 4096, 0), FEATURE_UNSUPPORTED)
    acl.expect(reserve(byref(out), 4096, 0, None, 2), RT_PARAM_INVALID, "flags 2")
    on_host = (ctypes.c_uint32 * 8)(0, 0, 4, 0, 0, 0, 0, 0)
    nowhere = (ctypes.c_uint32 * 8)(0, 0, 4, 99, 1, 0, 0, 0)
    acl.expect(physical(byref(out), 4096, on_host, 0), FEATURE_UNSUPPORTED)
    acl.expect(physical(byref(out), 4096, nowhere, 0), RT_INVALID_DEVICE)
    acl.expect(physical(byref(out), 4096, nowhere, 1), RT_PARAM_INVALID, "flags 1")
    acl.expect(acl.aclrtMapMem(None, 4096, 0, None, 0), RT_PARAM_INVALID)
    acl.expect(acl.aclrtFreePhysical(None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtUnmapMem(None), RT_PARAM_INVALID)
    acl.expect(acl.aclrtReleaseMemAddress(None), RT_PARAM_INVALID)
