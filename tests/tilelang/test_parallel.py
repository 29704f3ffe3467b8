"""`T.Parallel` against torch: expressions, dtypes, broadcasts, and accesses it has to check."""

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend.errors import KernelError
from tests.tilelang.harness import Fault, host_kernel

M, N = 6, 70

EXPRESSIONS = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "fused": (lambda a, b: a * (b + a) - 1, lambda a, b: a * (b + a) - 1),
    "div": (lambda a, b: a / (b * b + 1.0), lambda a, b: a / (b * b + 1.0)),
    "abs": (lambda a, b: T.abs(a) - abs(b), lambda a, b: a.abs() - b.abs()),
    "max": (lambda a, b: T.max(a, 0) + T.min(b, a), lambda a, b: a.clamp(min=0) + torch.min(a, b)),
    "if": (lambda a, b: T.if_then_else(a > b, a, -b), lambda a, b: torch.where(a > b, a, -b)),
    "sqrt": (lambda a, b: T.sqrt(T.abs(a)), lambda a, b: a.abs().double().sqrt().to(a.dtype)),
    "exp": (lambda a, b: T.exp(a), lambda a, b: a.exp()),
}


def store_all(tiles, out):
    for row, (function, _) in enumerate(EXPRESSIONS.values()):
        one_expression(function, *tiles, out, row)


@T.macro
def one_expression(function, a, b, c, out, row):
    for i, j in T.Parallel(M, N):
        c[i, j] = function(a[i, j], b[i, j])
    T.copy(c, out[row, :, :])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_expressions_round_step_by_step(dtype):
    @T.prim_func
    def expressions(
        a: T.Tensor((M, N), dtype), b: T.Tensor((M, N), dtype),
        out: T.Tensor((len(EXPRESSIONS), M, N), dtype),
    ):  # fmt: skip
        with T.Kernel(1, is_npu=True) as (_, vid):
            a_ub, b_ub = T.alloc_ub((M, N), dtype), T.alloc_ub((M, N), dtype)
            c_ub = T.alloc_ub((M, N), dtype)
            T.copy(a, a_ub)
            T.copy(b, b_ub)
            store_all((a_ub, b_ub, c_ub), out)

    torch.manual_seed(0)
    a, b = (torch.randn(M, N).to(getattr(torch, dtype)) for _ in range(2))
    out = host_kernel(expressions, out_idx=[2])(a, b)
    for (name, (_, reference)), got in zip(EXPRESSIONS.items(), out, strict=True):
        close = 1e-6 if name == "exp" and dtype == "float32" else 1e-2 if name == "exp" else 0
        torch.testing.assert_close(
            got, reference(a, b), rtol=close, atol=0, msg=lambda t, n=name: n + t
        )


def test_bits_and_rows_and_statements_in_order():
    @T.prim_func
    def mixed(
        a: T.Tensor((M, N), "int16"), s: T.Tensor((M,), "float32"), w: T.Tensor((N,), "float32"),
        bits: T.Tensor((M, N), "int16"), out: T.Tensor((M, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, is_npu=True) as (_, vid):
            a_ub, b_ub = T.alloc_ub((M, N), "int16"), T.alloc_ub((M, N), "int16")
            s_ub, w_ub = T.alloc_ub((M,), "float32"), T.alloc_ub((N,), "float32")
            o_ub = T.alloc_ub((M, N), "float32")
            T.copy(a, a_ub)
            T.copy(s, s_ub)
            T.copy(w, w_ub)
            for i, j in T.Parallel(M, N):
                b_ub[i, j] = (a_ub[i, j] & 12) | (a_ub[i, j] << 2) ^ ~a_ub[i, j]
            for i in T.Parallel(M):
                s_ub[i] = s_ub[i] * 2.0
                s_ub[i] += 1.0
            for i in range(M):
                for j in T.Parallel(N):
                    o_ub[i, j] = w_ub[j] * s_ub[i] + T.cast(j, "float32")
            for i, j in T.Parallel(M - 2, N // 2):
                o_ub[i + 1, j + 3] = o_ub[i + 1, j + 3] - w_ub[2 * j]
            T.copy(b_ub, bits)
            T.copy(o_ub, out)

    a = torch.randint(-900, 900, (M, N)).to(torch.int16)
    s, w = torch.randn(M), torch.randn(N)
    bits, out = host_kernel(mixed, out_idx=[3, 4])(a, s, w)
    assert torch.equal(bits, (a & 12) | (a << 2) ^ ~a)
    want = w[None, :] * (s * 2 + 1)[:, None] + torch.arange(N).float()
    want[1 : M - 1, 3 : 3 + N // 2] -= w[::2]
    assert torch.equal(out, want)


def indexed(offset):
    @T.prim_func
    def shifted(
        a: T.Tensor((N,), "float32"), where: T.Tensor((N,), "int32"),
        out: T.Tensor((N,), "float32"), by: T.int32,
    ):  # fmt: skip
        with T.Kernel(1, is_npu=True) as (_, vid):
            a_ub, i_ub = T.alloc_ub((N,), "float32"), T.alloc_ub((N,), "int32")
            o_ub = T.alloc_ub((N,), "float32")
            T.copy(a, a_ub)
            T.copy(where, i_ub)
            for j in T.Parallel(N):
                o_ub[j] = T.if_then_else(j + by >= 0, a_ub[T.max(j + by, 0)], 0.0)
            for j in T.Parallel(10):
                o_ub[j + offset] = a_ub[i_ub[j]]
            T.copy(o_ub, out)

    return host_kernel(shifted, out_idx=[2])


def test_indices_from_data_are_checked():
    a, where = torch.randn(N), torch.randint(0, N, (N,), dtype=torch.int32)
    out = indexed(20)(a, where, -3)
    want = torch.cat([torch.zeros(3), a[:-3]])
    want[20:30] = a[where[:10].long()]
    assert torch.equal(out, want)
    where[4] = N
    with pytest.raises(Fault, match=rf"kind 2 block 0 core AIV0 .*index {N} of a_ub\[{N}\]"):
        indexed(20)(a, where, -3)
    with pytest.raises(Fault, match=r"test_parallel.py:\d+:\d+: index 70 of a_ub"):
        indexed(20)(a, where, 1)


def test_refused():
    with pytest.raises(KernelError, match="3D or higher"):

        @T.prim_func
        def three():
            with T.Kernel(1, is_npu=True) as (_, vid):
                for i, j, k in T.Parallel(2, 2, 2):
                    pass

    with pytest.raises(KernelError, match="2 indices, got 1 names"):

        @T.prim_func
        def names():
            with T.Kernel(1, is_npu=True) as (_, vid):
                for i in T.Parallel(2, 2):
                    pass
