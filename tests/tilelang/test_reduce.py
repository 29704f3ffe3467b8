"""Reductions against torch: dimensions, merging, valid parts, and refused shapes."""

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend.errors import KernelError
from tests.tilelang.harness import host_kernel

ROWS, COLS = 7, 300


def kernel(dtype):
    @T.prim_func
    def reduce_all(
        a: T.Tensor((ROWS, COLS), dtype),
        rows: T.Tensor((4, ROWS), dtype),
        cols: T.Tensor((3, COLS), dtype),
        whole: T.Tensor((1,), dtype),
    ):
        with T.Kernel(1, is_npu=True) as (_, vid):
            a_ub = T.alloc_ub((ROWS, COLS), dtype)
            r_ub = T.alloc_ub((ROWS,), dtype)
            k_ub = T.alloc_ub((ROWS, 1), dtype)
            c_ub = T.alloc_ub((COLS,), dtype)
            w_ub = T.alloc_ub((1,), dtype)
            T.copy(a, a_ub)
            T.reduce_sum(a_ub, r_ub, dim=-1)
            T.copy(r_ub, rows[0, :])
            T.reduce_max(a_ub, r_ub, 1)
            T.copy(r_ub, rows[1, :])
            T.reduce_min(a_ub, k_ub, dim=1)
            T.copy(k_ub[:, 0], r_ub)
            T.copy(r_ub, rows[2, :])
            T.tile.fill(r_ub, 3)
            T.reduce_sum(a_ub, r_ub, -1, False)
            T.copy(r_ub, rows[3, :])
            T.reduce_sum(a_ub, c_ub, dim=0)
            T.copy(c_ub, cols[0, :])
            T.reduce(a_ub, c_ub, "max", 0)
            T.copy(c_ub, cols[1, :])
            T.reduce_min(a_ub, c_ub, dim=-2, clear=False)
            T.copy(c_ub, cols[2, :])
            T.reduce_sum(a_ub[2, :], w_ub, dim=-1)
            T.copy(w_ub, whole)

    return host_kernel(reduce_all, out_idx=[1, 2, 3])


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int32"])
def test_against_torch(name):
    torch.manual_seed(0)
    dtype = getattr(torch, name)
    a = torch.randint(-50, 50, (ROWS, COLS)) if name == "int32" else torch.randn(ROWS, COLS)
    a = a.to(dtype)
    rows, cols, whole = kernel(name)(a)
    wide = a.double()
    want = [wide.sum(1), wide.amax(1), wide.amin(1), wide.sum(1).to(dtype).double() + 3]
    close = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "int32": 0}[name]
    for got, value in zip(rows, want, strict=True):
        torch.testing.assert_close(got.double(), value, rtol=close, atol=close * 10)
    want = [wide.sum(0), wide.amax(0), wide.amin(0)]
    for got, value in zip(cols, want, strict=True):
        torch.testing.assert_close(got.double(), value, rtol=close, atol=close * 10)
    torch.testing.assert_close(whole.double(), wide[2:3].sum(1), rtol=close, atol=close * 10)


def test_half_sums_accumulate_in_float():
    a = torch.full((ROWS, COLS), 16.0).half()
    a[:, 0] = 2048.0
    rows, _, _ = kernel("float16")(a)
    assert rows[0].tolist() == [float(2048 + 16 * 299)] * ROWS


def test_nan_reaches_max_and_min():
    a = torch.zeros(ROWS, COLS)
    a[3, 17] = torch.nan
    rows, cols, _ = kernel("float32")(a)
    assert rows[1].isnan().tolist() == rows[2].isnan().tolist() == [i == 3 for i in range(ROWS)]
    assert cols[1].isnan()[17] and cols[1].isnan().sum() == 1


def test_valid_part_of_a_padded_tile():
    n = T.symbolic("n")

    @T.prim_func
    def part(
        a: T.Tensor((n, 5), "float32"), rows: T.Tensor((8,), "float32"),
        cols: T.Tensor((8,), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, is_npu=True) as (_, vid):
            tile = T.alloc_ub((8, 8), "float32")
            out = T.alloc_ub((8,), "float32")
            T.copy(a[0, 0], tile, pad_value=100.0)
            T.tile.fill(out, -1.0)
            T.reduce_max(tile, out, -1, [n, 5])
            T.copy(out, rows)
            T.tile.fill(out, -1.0)
            T.reduce_sum(tile, out, 0, True, real_shape=[n, 5])
            T.copy(out, cols)

    kernel = host_kernel(part, out_idx=[1, 2])
    for size in (8, 3):
        a = torch.randn(size, 5)
        rows, cols = kernel(a)
        assert torch.equal(rows[:size], a.amax(1)) and (rows[size:] == -1).all()
        torch.testing.assert_close(cols[:5], a.sum(0))
        assert (cols[5:] == -1).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("T.reduce_sum(a, r, dim=2)", "only axis 0/1/-1/-2"),
        ("T.reduce_sum(a, r, dim=0)", "Invalid reduce output shape"),
        ("T.reduce_sum(a, r, -1, True, False)", "each once"),
        ("T.reduce_sum(a, r, dim=True)", "must be an integer axis"),
        ("T.reduce_sum(a, r, -1, real_shape=[9, 8])", "must be 0 to the buffer's extent 8"),
        ("T.reduce_sum(a, h, -1)", "is float32, h"),
        ("T.reduce_sum(a[:, 0:4], r, -1)", "not one contiguous run"),
        ("T.reduce(a, r, 'prod', -1)", "unknown reduce_type"),
    ],
)
def test_refused(call, message):
    with pytest.raises(KernelError, match=message):

        @T.prim_func
        def bad():
            with T.Kernel(1, is_npu=True) as (_, vid):
                a = T.alloc_ub((8, 8), "float32")
                r = T.alloc_ub((4,) if "dim=0" in call else (8,), "float32")
                h = T.alloc_ub((8,), "float16")
                eval(call, {"T": T, "a": a, "r": r, "h": h})
