"""Faults while a kernel runs: reported with kernel, block, core, address and source place."""

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend.errors import KernelError
from softnpu.tilelang_ascend.jit import PassConfigKey
from tests.tilelang.harness import Fault, extent_of, host_kernel

PLANNING = {PassConfigKey.TL_ASCEND_MEMORY_PLANNING: True}


@T.prim_func
def rows(a: T.Tensor((8, 16), "float32"), out: T.Tensor((8, 16), "float32"), shift: T.int32):
    with T.Kernel(4, is_npu=True) as (cid, vid):
        t = T.alloc_ub((16,), "float32")
        T.copy(a[cid * 2 + vid + shift, :], t)
        T.copy(t, out[cid * 2 + vid, :])


def test_global_memory_outside_its_allocation():
    a, out = torch.randn(8, 16), torch.zeros(8, 16)
    kernel = host_kernel(rows, limits=[extent_of(a, 5 * 16)])
    with pytest.raises(Fault) as caught:
        kernel(a, out, 0)
    address = a.data_ptr() + 5 * 64
    text = str(caught.value)
    assert text.startswith(f"kind 1 block 2 core AIV1 address {address:#x} at test_faults.py:17:9:")
    assert "a: elements 80 to 95 are outside the tensor's allocation" in text
    assert torch.equal(out[:5], a[:5])


def test_a_row_before_the_tensor():
    with pytest.raises(Fault, match="block 0 core AIV0.*a: the copy begins before the tensor"):
        host_kernel(rows)(torch.randn(8, 16), torch.zeros(8, 16), -1)


def test_single_elements_of_global_memory():
    @T.prim_func
    def element(a: T.Tensor((8,), "int32"), at: T.int32):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            a[at + 1] = a[at] + 1

    a = torch.zeros(8, dtype=torch.int32)
    host_kernel(element)(a, 3)
    assert a[4] == 1
    with pytest.raises(Fault, match="kind 1 .*index 8 is outside dimension 0 of a, which is 8"):
        host_kernel(element)(a, 7)
    with pytest.raises(Fault, match="elements 4 to 4 are outside the tensor's allocation"):
        host_kernel(element, limits=[extent_of(a, 4)])(a, 3)
    assert a[4] == 1


def test_indices_and_slices_of_tiles():
    @T.prim_func
    def tiles(n: T.int32, m: T.int32):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            t = T.alloc_ub((4, 16), "float32")
            for i in T.serial(n):
                T.tile.fill(t[i, :], 1.0)
            t[0, m] = 2.0

    host_kernel(tiles)(4, 15)
    with pytest.raises(
        Fault, match=r"kind 2 .*slice 4:5 of t\[4, 16\] is outside dimension 0 of 4"
    ):
        host_kernel(tiles)(5, 0)
    with pytest.raises(Fault, match=r"index 16 of t\[4, 16\] is outside dimension 1 of 16"):
        host_kernel(tiles)(1, 16)
    with pytest.raises(Fault, match="index -1 of t"):
        host_kernel(tiles)(1, -1)


def test_division_by_zero_and_assertions():
    @T.prim_func
    def divides(out: T.Tensor((8,), "int32"), by: T.int32):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            t = T.alloc_ub((8,), "int32")
            T.tile.fill(t, 100 // by + 100 % by)
            assert by != 3, "three is not allowed"
            T.copy(t, out)

    kernel = host_kernel(divides, out_idx=[0])
    assert kernel(7)[0] == 16
    with pytest.raises(Fault, match=r"kind 4 .*test_faults.py:\d+:\d+: integer division by zero"):
        kernel(0)
    with pytest.raises(Fault, match="three is not allowed"):
        kernel(3)


def test_a_loop_without_end():
    @T.prim_func
    def spins(out: T.Tensor((8,), "int32"), step: T.int32):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            i = T.alloc_var("int32", init=1)
            while i != 0:
                i = i * step
            out[0] = i

    kernel = host_kernel(spins)
    out = torch.ones(8, dtype=torch.int32)
    kernel(out, 2)  # wraps to 0 after 32 rounds
    assert out[0] == 0
    with pytest.raises(
        Fault, match="test_faults.py:.*: the loop has not ended after 1073741824 rounds"
    ):
        kernel(out, 1)


def tile_chain(count, size):
    """`count` tiles, each dead once the next one is made."""

    @T.prim_func
    def chain(a: T.Tensor((size,), "float32"), out: T.Tensor((size,), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            first = T.alloc_ub((size,), "float32")
            T.copy(a, first)
            T.copy(extend(first, count, size), out)

    return chain


def extend(tile, count, size):
    for _ in range(count - 1):
        following = T.alloc_ub((size,), "float32")
        T.tile.add(following, tile, 1.0)
        tile = following
    return tile


def test_unified_buffer_overflow_is_found_when_compiling():
    with pytest.raises(KernelError, match="unified buffer overflow") as caught:
        host_kernel(tile_chain(3, 20000))
    assert "needs 80000 bytes at offset 160000, the buffer has 196608" in caught.value.message
    assert "TL_ASCEND_MEMORY_PLANNING" in caught.value.message
    assert caught.value.loc.file == __file__
    kernel = host_kernel(tile_chain(6, 20000), out_idx=[1], pass_configs=PLANNING)
    assert kernel.ub_bytes == 160000
    a = torch.randn(20000)
    assert torch.equal(kernel(a), a + 1 + 1 + 1 + 1 + 1)
    with pytest.raises(KernelError, match="use smaller tiles"):
        host_kernel(tile_chain(2, 30000), pass_configs=PLANNING)
    assert host_kernel(tile_chain(3, 16384)).ub_bytes == 196608  # all there is, to the last byte


def test_planning_keeps_what_a_loop_carries():
    @T.prim_func
    def carries(a: T.Tensor((4, 64), "float32"), out: T.Tensor((64,), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            total = T.alloc_ub((64,), "float32")
            T.tile.fill(total, 0.0)
            for i in T.serial(4):
                row = T.alloc_ub((64,), "float32")
                T.copy(a[i, :], row)
                T.tile.add(total, total, row)
                extra = T.alloc_ub((64,), "float32")
                T.tile.fill(extra, 1.0)
                T.tile.add(total, total, extra)
            T.copy(total, out)

    kernel = host_kernel(carries, out_idx=[1], pass_configs=PLANNING)
    assert kernel.ub_bytes == 2 * 256
    a = torch.randn(4, 64)
    want = torch.zeros(64)
    for row in a:
        want = want + row + 1
    assert torch.equal(kernel(a), want)


@pytest.mark.parametrize(
    ("first", "tiles"),
    [
        ("T.copy(a[i, :], early)", 2),  # overwritten in every iteration: `late` may share its place
        ("T.tile.add(early, early, 1.0)", 3),  # carried from one iteration to the next
        ("T.copy(a[i, 0:8], early[0:8])", 3),  # the rest is carried
        ("if_i_is_even(early)", 3),  # not overwritten in every iteration
    ],
)
def test_planning_of_tiles_that_are_allocated_before_a_loop(first, tiles):
    @T.macro
    def if_i_is_even(i, tile):
        if i % 2 == 0:
            T.tile.fill(tile, 1.0)

    def if_i_is_even_at(i):
        return lambda tile: if_i_is_even(i, tile)

    @T.prim_func
    def loop(a: T.Tensor((4, 64), "float32"), out: T.Tensor((64,), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            early = T.alloc_ub((64,), "float32")
            middle = T.alloc_ub((64,), "float32")
            late = T.alloc_ub((64,), "float32")
            for i in T.serial(4):
                eval(
                    first,
                    {"T": T, "a": a, "i": i, "early": early, "if_i_is_even": if_i_is_even_at(i)},
                )
                T.tile.exp(middle, early)
                T.tile.exp(late, middle)
                T.copy(late, out)

    kernel = host_kernel(loop, pass_configs=PLANNING)
    assert kernel.ub_bytes == tiles * 256


def test_smaller_chip_and_manual_addresses():
    @T.prim_func
    def placed(out: T.Tensor((64,), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            t = T.alloc_ub((64,), "float32")
            u = T.alloc_ub((64,), "float32")
            T.annotate_address({t: 1024})
            T.tile.fill(u, 1.0)
            T.tile.add(t, u, 1.0)
            T.copy(t, out)

    kernel = host_kernel(placed, out_idx=[0])
    assert kernel.ub_bytes == 1280
    assert (kernel() == 2).all()
    with pytest.raises(
        Fault, match="needs 1280 bytes of unified buffer, a vector core .* has 1000"
    ):
        host_kernel(placed, out_idx=[0], ub_bytes=1000)()


def test_uninitialised_tiles_can_be_poisoned(monkeypatch):
    @T.prim_func
    def unset(out: T.Tensor((64,), "float16")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            t = T.alloc_ub((64,), "float16")
            T.tile.add(t, t, 1.0)
            T.copy(t, out)

    monkeypatch.setenv("SOFTNPU_POISON_UB", "1")
    assert host_kernel(unset, out_idx=[0])().isnan().all()
