"""Masks, gathers, broadcasts, fills and views against torch."""

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend.errors import KernelError, KernelWarning
from softnpu.tilelang_ascend.intrinsics import COMPARE, GATHER_PATTERNS
from tests.tilelang.harness import Fault, host_kernel

N = 256


def compare_all(a, b, mask, out):
    for i, mode in enumerate(COMPARE):
        T.tile.compare(mask, a, b, mode)
        T.copy(mask, out[2 * i, :])
        T.tile.compare(mask, a, 0.5, mode)
        T.copy(mask, out[2 * i + 1, :])


def bits(flags):
    weights = 1 << torch.arange(8)
    return (flags.reshape(-1, 8).long() * weights).sum(1).to(torch.uint8)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_compare_writes_bits(dtype):
    @T.prim_func
    def compares(
        a: T.Tensor((N,), dtype), b: T.Tensor((N,), dtype), out: T.Tensor((12, N // 8), "uint8")
    ):
        with T.Kernel(1, is_npu=True) as (_, vid):
            a_ub, b_ub = T.alloc_ub((N,), dtype), T.alloc_ub((N,), dtype)
            mask = T.alloc_ub((N // 8,), "uint8")
            T.copy(a, a_ub)
            T.copy(b, b_ub)
            compare_all(a_ub, b_ub, mask, out)

    torch.manual_seed(0)
    a = torch.randint(0, 3, (N,)).to(getattr(torch, dtype)) / 2
    b = torch.randint(0, 3, (N,)).to(getattr(torch, dtype)) / 2
    a[5] = torch.nan
    out = host_kernel(compares, out_idx=[-1])(a, b)
    for i, mode in enumerate(COMPARE):
        function = getattr(torch, mode.lower())
        assert torch.equal(out[2 * i], bits(function(a, b))), mode
        assert torch.equal(out[2 * i + 1], bits(function(a, 0.5))), mode


def test_select_takes_set_bits_from_the_first():
    @T.prim_func
    def selects(
        a: T.Tensor((N,), "float32"), b: T.Tensor((N,), "float32"),
        out: T.Tensor((3, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, is_npu=True) as (_, vid):
            a_ub = T.alloc_ub((N,), "float32")
            b_ub = T.alloc_ub((N,), "float32")
            c_ub = T.alloc_ub((N,), "float32")
            mask = T.alloc_ub((N // 8,), "int8")
            T.copy(a, a_ub)
            T.copy(b, b_ub)
            T.tile.compare(mask, a_ub, b_ub, "GT")
            T.tile.select(c_ub, mask, a_ub, b_ub, "VSEL_TENSOR_TENSOR_MODE")
            T.copy(c_ub, out[0, :])
            T.tile.select(c_ub, mask, b_ub, a_ub, "VSEL_CMPMASK_SPR")
            T.copy(c_ub, out[1, :])
            T.tile.select(c_ub, mask, a_ub, -T.infinity("float32"), "VSEL_TENSOR_SCALAR_MODE")
            T.copy(c_ub, out[2, :])

    a, b = torch.randn(N), torch.randn(N)
    out = host_kernel(selects, out_idx=[-1])(a, b)
    assert torch.equal(out[0], torch.maximum(a, b))
    assert torch.equal(out[1], torch.minimum(a, b))
    assert torch.equal(out[2], torch.where(a > b, a, -torch.inf))


def gather_kernel(dtype, base=0):
    @T.prim_func
    def gathers(
        a: T.Tensor((N,), dtype), offsets: T.Tensor((40,), "int32"), out: T.Tensor((40,), dtype)
    ):
        with T.Kernel(1, is_npu=True) as (_, vid):
            a_ub, out_ub = T.alloc_ub((N,), dtype), T.alloc_ub((40,), dtype)
            index, view = T.alloc_ub((40,), "int32"), T.alloc_ub((40,), "uint32")
            T.copy(a, a_ub)
            T.copy(offsets, index)
            T.reinterpretcast(view, index, "uint32_t")
            T.tile.gather(out_ub, a_ub, view, base)
            T.copy(out_ub, out)

    return host_kernel(gathers, out_idx=[-1])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gather_takes_byte_offsets(dtype):
    kind = getattr(torch, dtype)
    a = torch.randn(N).to(kind)
    index = torch.randint(0, N - 2, (40,), dtype=torch.int32)
    size = kind.itemsize
    assert torch.equal(gather_kernel(dtype)(a, index * size), a[index.long()])
    assert torch.equal(gather_kernel(dtype, 2 * size)(a, index * size), a[index.long() + 2])


def test_gather_outside_the_source_is_a_fault():
    index = torch.zeros(40, dtype=torch.int32)
    index[7] = N * 4
    with pytest.raises(Fault, match="byte offset 1024 of element 7"):
        gather_kernel("float32")(torch.randn(N), index)
    index[7] = 2
    with pytest.raises(Fault, match="offsets count bytes"):
        gather_kernel("float32")(torch.randn(N), index)


def gather_patterns(source, target, out):
    for i, pattern in enumerate(GATHER_PATTERNS):
        T.tile.fill(target, -1)
        T.tile.gather_mask(target, source, pattern)
        T.copy(target, out[i, :])


def test_gather_mask():
    @T.prim_func
    def masks(
        a: T.Tensor((64,), "float16"), index: T.Tensor((16,), "int32"),
        out: T.Tensor((7, 64), "float16"), chosen: T.Tensor((16,), "float16"),
        scaled: T.Tensor((16,), "int32"),
    ):  # fmt: skip
        with T.Kernel(1, is_npu=True) as (_, vid):
            if vid == 0:
                a_ub, b_ub = T.alloc_ub((64,), "float16"), T.alloc_ub((64,), "float16")
                i_ub, view = T.alloc_ub((16,), "int32"), T.alloc_ub((16,), "uint32")
                c_ub = T.alloc_ub((16,), "float16")
                T.copy(a, a_ub)
                T.copy(index, i_ub)
                gather_patterns(a_ub, b_ub, out)
                T.reinterpretcast(view, i_ub, "uint32_t")
                T.tile.gather_mask(c_ub, a_ub, view)
                T.copy(c_ub, chosen)
                T.copy(i_ub, scaled)

    a = torch.arange(64).half()
    index = torch.randint(0, 64, (16,), dtype=torch.int32)
    out, chosen, scaled = host_kernel(masks, out_idx=[2, 3, 4])(a, index)
    starts = {"P0101": (0, 2), "P1010": (1, 2), "P0001": (0, 4), "P0010": (1, 4), "P0100": (2, 4),
              "P1000": (3, 4), "P1111": (0, 1)}  # fmt: skip
    for pattern, row in zip(GATHER_PATTERNS, out, strict=True):
        first, step = starts[pattern]
        assert row.tolist() == a[first::step].tolist() + [-1.0] * (64 - 64 // step), pattern
    assert torch.equal(chosen, a[index.long()])
    assert torch.equal(scaled, index * 2)


def test_broadcast():
    @T.prim_func
    def spread(
        row: T.Tensor((32,), "float32"), col: T.Tensor((8,), "float32"),
        out: T.Tensor((6, 8, 32), "float32"), line: T.Tensor((32,), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, is_npu=True) as (_, vid):
            r1, r2 = T.alloc_ub((32,), "float32"), T.alloc_ub((1, 32), "float32")
            c1, c2 = T.alloc_ub((8,), "float32"), T.alloc_ub((8, 1), "float32")
            tile = T.alloc_ub((8, 32), "float32")
            T.copy(row, r1)
            T.copy(row, r2[0, :])
            T.copy(col, c1)
            T.copy(c1, c2[:, 0])
            T.tile.broadcast(tile, r1)
            T.copy(tile, out[0, :, :])
            T.tile.broadcast(tile, r2)
            T.copy(tile, out[1, :, :])
            T.tile.broadcast(tile, c1)
            T.copy(tile, out[2, :, :])
            T.tile.broadcast(tile, c2, axis=1)
            T.copy(tile, out[3, :, :])
            T.tile.broadcast(tile, tile)
            T.copy(tile, out[4, :, :])
            T.tile.broadcast(tile[0:4, :], r1)
            T.copy(tile, out[5, :, :])
            T.tile.broadcast(r1, c1[2:3])
            T.copy(r1, line)

    row, col = torch.randn(32), torch.randn(8)
    out, line = host_kernel(spread, out_idx=[2, 3])(row, col)
    rows, cols = row.expand(8, 32), col[:, None].expand(8, 32)
    assert torch.equal(out[0], rows) and torch.equal(out[1], rows)
    assert all(torch.equal(out[i], cols) for i in (2, 3, 4))
    assert torch.equal(out[5], torch.cat([rows[:4], cols[4:]]))
    assert (line == col[2]).all()


def test_fill_and_progressions():
    @T.prim_func
    def fills(i: T.Tensor((4, 40), "int32"), h: T.Tensor((2, 40), "float16"), start: T.int32):
        with T.Kernel(1, is_npu=True) as (_, vid):
            i_ub, h_ub = T.alloc_ub((40,), "int32"), T.alloc_ub((40,), "float16")
            one = T.alloc_ub((1, 1), "int32")
            T.tile.createvecindex(i_ub, start)
            T.copy(i_ub, i[0, :])
            T.tile.arith_progression(i_ub, 10, -3, 20)
            T.copy(i_ub, i[1, :])
            T.tile.clear(i_ub)
            T.copy(i_ub, i[2, :])
            T.tile.fill(one, start * 2)
            T.tile.fill(i_ub[8:16], one)
            T.copy(i_ub, i[3, :])
            T.tile.fill(h_ub, 0.1)
            T.copy(h_ub, h[0, :])
            T.tile.arith_progression(h_ub, 0.5, 0.25, 40)
            T.copy(h_ub, h[1, :])

    i, h = host_kernel(fills, out_idx=[0, 1])(7)
    assert i[0].tolist() == list(range(7, 47))
    assert i[1].tolist() == [10 - 3 * k for k in range(20)] + list(range(27, 47))
    assert i[2].tolist() == [0] * 40
    assert i[3].tolist() == [0] * 8 + [14] * 8 + [0] * 24
    assert torch.equal(h[0], torch.full((40,), 0.1).half())
    assert torch.equal(h[1], (0.5 + torch.arange(40) * 0.25).half())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_atomic_add(dtype):
    @T.prim_func
    def adds(a: T.Tensor((4, 10), dtype), total: T.Tensor((6,), dtype)):
        with T.Kernel(4, is_npu=True) as (cid, vid):
            tile = T.alloc_ub((8,), dtype)
            if vid == 0:
                T.copy(a[cid, 0:8], tile)
                T.tile.atomic_add(total[0], tile)  # only six of the eight are inside

    a = torch.randint(0, 9, (4, 10)).to(getattr(torch, dtype))
    total = torch.ones(6, dtype=getattr(torch, dtype))
    host_kernel(adds)(a, total)
    assert torch.equal(total, 1 + a.sum(0)[:6].to(total.dtype))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("T.tile.compare(m, a, 1, 'LT')", "does not take a Python int"),
        ("T.tile.compare(m, a, a, 'lt')", "mode must be one of"),
        ("T.tile.compare(m, a[0:40], 0.0, 'LT')", "multiple of 256 bytes"),
        ("T.tile.compare(a, a, 0.0, 'LT')", "must be int8 or uint8"),
        ("T.tile.select(a, m, a, 1.0, 'VSEL_CMPMASK_SPR')", "does not go with a scalar"),
        ("T.tile.select(a, m, a, a, 'VSEL_TENSOR_SCALAR_MODE')", "does not go with a vector"),
        ("T.tile.select(a, m[0:2], a, a, 'VSEL_CMPMASK_SPR')", "has 16 bits for 256"),
        ("T.tile.gather(a, a, a, 0)", "byte offsets must be uint32"),
        ("T.tile.gather_mask(a, a, 'P0110')", "pattern must be one of"),
        ("T.tile.gather_mask(a, a, a)", "must be uint32"),
        ("T.tile.broadcast(g, m)", "must have one dtype"),
        ("T.tile.broadcast(g, a)", "dimension mismatch"),
        ("T.tile.cast(a, a, 'CAST_UP', 4)", "mode must be one of"),
        ("T.tile.cast(a, a, 'CAST_RINT', -1)", "the count is negative"),
        ("T.tile.add(a, a, g)", "size must be same"),
        ("T.tile.add(a, a, h)", "must have one dtype"),
        ("T.tile.add(a, a)", "takes 3 operands, got 2"),
        ("T.tile.add(a, a, g[1, 1])", "takes only the first index"),
        ("T.tile.mul(g[:, 0:8], g[:, 0:8], 2.0)", "not one contiguous run"),
        ("T.tile.bitwise_and(a, a, a)", "needs signed integer or unsigned integer elements"),
        ("T.tile.div(m, m, 2)", "needs float elements"),
        ("T.tile.exp(w, w)", "w is float64, which vector units lack"),
        ("T.tile.fill(m, 0.5)", "0.5 is not a value of uint8"),
        ("T.tile.atomic_add(a, a)", "is not in global memory"),
        ("T.tile.sort32(a, a, a)", "T.tile.sort32 is not supported: this instruction"),
        ("T.tile.sort(a, a, 4)", "must be different tiles"),
        ("T.tile.merge_sort(g, a[0:40], a[40:80])", "80 elements do not fit g"),
        ("T.tile.nothing(a)", "T.tile.nothing is not part of"),
    ],
)
def test_refused(call, message):
    with pytest.raises(KernelError, match=message):

        @T.prim_func
        def bad():
            with T.Kernel(1, is_npu=True) as (_, vid):
                a = T.alloc_ub((N,), "float32")
                h = T.alloc_ub((N,), "float16")
                g = T.alloc_ub((4, 16), "float32")
                m = T.alloc_ub((32,), "uint8")
                w = T.alloc_ub((32,), "float64")
                eval(call, {"T": T, "a": a, "h": h, "g": g, "m": m, "w": w})


def test_a_count_past_the_tile_is_cut_with_a_warning():
    def trace(count):
        @T.prim_func
        def casts(out: T.Tensor((2, 8), "int32"), n: T.int32):
            with T.Kernel(1, is_npu=True) as (_, vid):
                a, b = T.alloc_ub((8,), "float32"), T.alloc_ub((2, 8), "int32")
                T.tile.fill(a, 1.5)
                T.tile.fill(b, 7)
                T.tile.cast(b[0, :], a, "CAST_FLOOR", count)
                T.tile.cast(b[1, :], a, "CAST_CEIL", n)
                T.copy(b, out)

        return host_kernel(casts, out_idx=[0])

    with pytest.warns(KernelWarning, match="count 4096 exceeds b") as caught:
        kernel = trace(4096)
    assert caught[0].filename == __file__
    assert kernel(4).tolist() == [[1] * 8, [2] * 4 + [7] * 4]
    with pytest.raises(Fault, match="9 elements, the operand has 8"):
        kernel(9)
