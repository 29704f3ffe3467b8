"""Copies: the forms of operands, clamping at the tensor's end, padding, and refused shapes."""

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend.errors import KernelError
from tests.tilelang.harness import host_kernel


@pytest.mark.parametrize(("rows", "cols"), [(64, 128), (50, 100), (33, 129), (1, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
def test_tiles_are_clamped_to_the_tensor(rows, cols, dtype):
    block_m, block_n = 32, 64

    @T.prim_func
    def through(a: T.Tensor((rows, cols), dtype), out: T.Tensor((rows, cols), dtype)):
        with T.Kernel(T.ceildiv(rows, block_m) * T.ceildiv(cols, block_n), is_npu=True) as (
            cid,
            vid,
        ):
            bx = cid // T.ceildiv(cols, block_n)
            by = cid % T.ceildiv(cols, block_n)
            tile = T.alloc_ub((block_m // 2, block_n), dtype)
            T.copy(a[bx * block_m + vid * block_m // 2, by * block_n], tile)
            T.tile.add(tile, tile, 1)
            T.copy(tile, out[bx * block_m + vid * block_m // 2, by * block_n])

    torch.manual_seed(0)
    a = torch.randint(0, 100, (rows, cols)).to(getattr(torch, dtype))
    assert torch.equal(host_kernel(through, out_idx=[-1])(a), a + 1)


def test_partial_tiles_are_padded_whole():
    @T.prim_func
    def pads(a: T.Tensor((3, 5), "float32"), out: T.Tensor((3, 8, 8), "float32")):
        with T.Kernel(1, is_npu=True) as (_, vid):
            tile = T.alloc_ub((8, 8), "float32")
            T.tile.fill(tile, 9.0)
            T.copy(a[0, 0], tile)
            T.copy(tile, out[0, :, :])
            T.copy(a[1, 2], tile, pad_value=-T.infinity("float32"))
            T.copy(tile, out[1, :, :])
            T.copy(a[5, 0], tile, pad_value=7)
            T.copy(tile, out[2, :, :])

    a = torch.arange(15.0).reshape(3, 5)
    zero, infinite, empty = host_kernel(pads, out_idx=[-1])(a)
    want = torch.zeros(8, 8)
    want[:3, :5] = a
    assert torch.equal(zero, want)
    want = torch.full((8, 8), -torch.inf)
    want[:2, :3] = a[1:, 2:]
    assert torch.equal(infinite, want)
    assert torch.equal(empty, torch.full((8, 8), 7.0))


def test_forms_of_operands():
    @T.prim_func
    def forms(
        a: T.Tensor((2, 4, 16), "float32"), flat: T.Tensor((64,), "float32"),
        out: T.Tensor((4, 4, 16), "float32"), column: T.Tensor((2, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(2, is_npu=True) as (cid, vid):
            tile = T.alloc_ub((4, 16), "float32")
            row = T.alloc_ub((16,), "float32")
            deep = T.alloc_ub((2, 4, 16), "float32")
            upright = T.alloc_ub((64, 1), "float32")
            if vid == 0:
                T.copy(a[cid, :, :], tile)
                T.copy(tile[2, :], row)  # a row of a tile
                T.copy(row, tile[0, :])
                T.copy(a[cid, 1, 4:], tile[1, 0:12])  # a slice with an open end
                T.copy(tile, out[cid, :, :])
                T.copy(flat[0:60], upright, pad_value=5)  # one row into a tile of another shape
                T.copy(upright, column[cid, :])
            else:
                T.copy(flat[cid * 16], deep[1, 3, :])  # an origin and a row of three dimensions
                T.copy(deep[1, 3, :], deep[0, 0, :])
                for i in T.serial(1, 4):
                    T.copy(flat[16 * i : 16 * i + 16], deep[0, i, :])
                T.copy(deep[0, :, :], out[2 + cid, 0:4, 0:16])

    a = torch.arange(128.0).reshape(2, 4, 16)
    flat = torch.arange(64.0) + 1000
    out, column = host_kernel(forms, out_idx=[-2, -1])(a, flat)
    assert (column == torch.cat([flat[:60], torch.full((4,), 5.0)])).all()
    want = torch.empty(4, 4, 16)
    want[:2] = a
    want[:2, 0] = a[:, 2]
    want[:2, 1, :12] = a[:, 1, 4:]
    want[2:, 0] = flat[:32].reshape(2, 16)
    want[2:, 1:] = flat[16:].reshape(3, 16)
    assert torch.equal(out, want)


def test_windows_of_tiles_are_copied_by_rows():
    @T.prim_func
    def windows(a: T.Tensor((8, 64), "float32"), out: T.Tensor((8, 32), "float16")):
        with T.Kernel(1, is_npu=True) as (_, vid):
            wide = T.alloc_ub((8, 64), "float32")
            part = T.alloc_ub((8, 32), "float32")
            half = T.alloc_ub((8, 32), "float16")
            T.copy(a, wide)
            T.copy(wide[:, 16:48], part)
            T.copy(part[2:6, 0:8], wide[0:4, 8:16])
            T.copy(wide[0:8, 0:32], half)
            T.copy(half, out)

    a = torch.arange(512.0).reshape(8, 64)
    want = a[:, :32].clone()
    want[0:4, 8:16] = a[2:6, 16:24]
    assert torch.equal(host_kernel(windows, out_idx=[-1])(a), want.half())


def test_symbolic_rows_and_leading_dimensions():
    n = T.symbolic("n")

    @T.prim_func
    def scale(a: T.Tensor((n, 3, 40), "float32"), out: T.Tensor((n, 3, 40), "float32")):
        with T.Kernel(T.ceildiv(n, 2), is_npu=True) as (cid, vid):
            tile = T.alloc_ub((3, 40), "float32")
            if cid * 2 + vid < n:
                T.copy(a[cid * 2 + vid, :, :], tile)
                T.tile.mul(tile, tile, 2.0)
                T.copy(tile, out[cid * 2 + vid, :, :])

    kernel = host_kernel(scale, out_idx=[-1])
    for size in (1, 5, 8):
        a = torch.randn(size, 3, 40)
        assert torch.equal(kernel(a), a * 2)


def refused(src, dst, message):
    """Traces one copy between parts of a = [4, 8, 16] in global memory and tiles."""

    def trace():
        @T.prim_func
        def bad(a: T.Tensor((4, 8, 16), "float32"), h: T.Tensor((8, 16), "float16")):
            with T.Kernel(1, is_npu=True) as (cid, vid):
                t2 = T.alloc_ub((8, 16), "float32")
                t1 = T.alloc_ub((8,), "float32")
                spaces = {"a": a, "h": h, "t2": t2, "t1": t1, "cid": cid}
                T.copy(eval(src, spaces), eval(dst, spaces))

    with pytest.raises(KernelError, match=message) as caught:
        trace()
    assert caught.value.loc.file == __file__


def test_refused_copies():
    refused("a[0, :, :]", "h", "no path from global memory to global memory")
    refused("t1[0]", "t2[0, 0]", "can't deduce copy extents")
    refused("a[0:2, 0:4, :]", "t2", "dimensions that are not 1")
    refused("a[0, :, 3]", "t1", "is a column")
    refused("h", "t2", "only copies between tiles convert")
    refused("a[0, :, 0:8]", "t2[:, 0:8]", "not one contiguous run")
    refused("t1", "t2", "shapes differ")
    refused("t2[0:2, :]", "t1", "sizes differ")
    refused("a[0, :, :]", "t2[0:4, :]", "has 8 rows")
    refused("t2[8, :]", "t2[0, :]", "is outside t2")
    refused("t2[0, 0:8:2]", "t1[0:4]", "step")
