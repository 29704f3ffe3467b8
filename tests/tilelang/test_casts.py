"""Conversions between tiles: rounding modes, saturation, and what `T.copy` does."""

import math

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend.intrinsics import ROUNDING
from tests.tilelang.harness import host_kernel

VALUES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.4, -0.4, 0.6, -0.6, 2.75, -2.75, 1000.1,
          -1000.1]  # fmt: skip
TO_INTEGER = {
    "CAST_NONE": round,
    "CAST_RINT": round,
    "CAST_FLOOR": math.floor,
    "CAST_CEIL": math.ceil,
    "CAST_ROUND": lambda x: int(math.copysign(math.floor(abs(x) + 0.5), x)),
    "CAST_TRUNC": math.trunc,
    "CAST_ODD": round,
}


def each_mode(target, source, out):
    for i, mode in enumerate(ROUNDING):
        T.tile.cast(target, source, mode, source.shape[0])
        T.copy(target, out[i, :])


def cast_kernel(count, source, target):
    @T.prim_func
    def casts(a: T.Tensor((count,), source), out: T.Tensor((len(ROUNDING), count), target)):
        with T.Kernel(1, is_npu=True) as (_, vid):
            src = T.alloc_ub((count,), source)
            dst = T.alloc_ub((count,), target)
            T.copy(a, src)
            each_mode(dst, src, out)

    return host_kernel(casts, out_idx=[-1])


@pytest.mark.parametrize("source", ["float32", "float16"])
@pytest.mark.parametrize("target", ["int32", "int16"])
def test_float_to_integer_modes(source, target):
    a = torch.tensor(VALUES).to(getattr(torch, source))
    out = cast_kernel(len(VALUES), source, target)(a)
    for mode, row in zip(ROUNDING, out, strict=True):
        assert row.tolist() == [TO_INTEGER[mode](x) for x in a.tolist()], mode


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_float_cast_to_its_own_type_becomes_whole(dtype):
    a = torch.tensor(VALUES[:-2]).to(getattr(torch, dtype))
    out = cast_kernel(len(a), dtype, dtype)(a)
    for mode, row in zip(ROUNDING, out, strict=True):
        want = a.tolist() if mode == "CAST_NONE" else [TO_INTEGER[mode](x) for x in a.tolist()]
        assert row.tolist() == want, mode


def test_float_to_integer_saturates():
    a = torch.tensor([1e10, -1e10, math.inf, -math.inf, math.nan, 40000.0])
    wide, small = cast_kernel(6, "float32", "int32")(a), cast_kernel(6, "float32", "int16")(a)
    top, bottom = 2**31 - 1, -(2**31)
    assert wide[1].tolist() == [top, bottom, top, bottom, 0, 40000]
    assert small[1].tolist() == [32767, -32768, 32767, -32768, 0, 32767]


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_narrowing_floats(target):
    dtype = getattr(torch, target)
    torch.manual_seed(1)
    a = torch.cat([torch.randn(500) * 10.0 ** torch.randint(-9, 6, (500,)),
                   torch.tensor([65504.0, 65519.0, 65520.0, 1e30, math.inf, -math.inf, math.nan,
                                 5.9e-8, 2.9e-8, 6.1e-5, 1e-40])])  # fmt: skip
    out = dict(zip(ROUNDING, cast_kernel(len(a), "float32", target)(a), strict=True))
    near = a.to(dtype)
    for mode in ("CAST_NONE", "CAST_RINT"):
        torch.testing.assert_close(out[mode], near, rtol=0, atol=0, equal_nan=True)
    finite = torch.isfinite(a) & torch.isfinite(near)
    x = a[finite].double()
    floor, ceil = out["CAST_FLOOR"][finite].double(), out["CAST_CEIL"][finite].double()
    trunc = out["CAST_TRUNC"][finite].double()
    assert (floor <= x).all() and (ceil >= x).all() and (trunc.abs() <= x.abs()).all()
    assert ((floor == near[finite].double()) | (ceil == near[finite].double())).all()


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_every_narrow_value_survives_widening(narrow):
    dtype = getattr(torch, narrow)
    a = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(dtype)

    @T.prim_func
    def widen(a: T.Tensor((8, 8192), narrow), out: T.Tensor((8, 8192), "float32")):
        with T.Kernel(8, is_npu=True) as (cid, vid):
            src = T.alloc_ub((8192,), narrow)
            dst = T.alloc_ub((8192,), "float32")
            T.copy(a[cid, :], src)
            for i in T.Parallel(4096):
                dst[i] = T.cast(src[i], "float32")
            T.copy(src[4096:8192], dst[4096:8192])
            T.copy(dst, out[cid, :])

    out = host_kernel(widen, out_idx=[-1])(a.reshape(8, 8192))
    torch.testing.assert_close(out.flatten(), a.float(), rtol=0, atol=0, equal_nan=True)


def test_copy_casts_like_the_device():
    @T.prim_func
    def casts(
        a: T.Tensor((32,), "float32"),
        i: T.Tensor((32,), "int32"),
        rounded: T.Tensor((32,), "int32"),
        narrow: T.Tensor((32,), "int16"),
        wide: T.Tensor((32,), "float32"),
    ):
        with T.Kernel(1, is_npu=True) as (_, vid):
            a_ub = T.alloc_ub((32,), "float32")
            i_ub = T.alloc_ub((32,), "int32")
            r_ub = T.alloc_ub((32,), "int32")
            n_ub = T.alloc_ub((32,), "int16")
            T.copy(a, a_ub)
            T.copy(i, i_ub)
            T.copy(a_ub, r_ub)
            T.copy(i_ub, n_ub)
            T.copy(r_ub, rounded)
            T.copy(n_ub, narrow)
            T.copy(n_ub, a_ub)
            T.copy(a_ub, wide)

    a = torch.arange(32) - 15.5
    i = torch.arange(32, dtype=torch.int32) * 7 - 100
    i[0], i[1] = 70000, -70000
    rounded, narrow, wide = host_kernel(casts, out_idx=[2, 3, 4])(a, i)
    assert rounded.tolist() == [round(x) for x in a.tolist()]
    assert narrow.tolist() == i.clamp(-32768, 32767).tolist()
    assert wide.tolist() == [float(x) for x in narrow.tolist()]


def test_integers_to_half_are_scaled():
    @T.prim_func
    def scaled(a: T.Tensor((32,), "int32"), out: T.Tensor((2, 32), "float16")):
        with T.Kernel(1, is_npu=True) as (_, vid):
            a_ub, h_ub = T.alloc_ub((32,), "int32"), T.alloc_ub((32,), "float16")
            T.copy(a, a_ub)
            T.copy(a_ub, h_ub)
            T.copy(h_ub, out[0, :])
            T.set_deq_scale(0.5)
            T.tile.cast(h_ub, a_ub, "CAST_NONE", 32)
            T.copy(h_ub, out[1, :])

    a = torch.arange(32, dtype=torch.int32) * 1001
    out = host_kernel(scaled, out_idx=[1])(a)
    assert torch.equal(out[0], a.half()) and torch.equal(out[1], (a * 0.5).half())
