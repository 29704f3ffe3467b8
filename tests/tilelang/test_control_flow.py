"""Loops, branches, scalars, macros, closures: what the trace keeps and what it decides."""

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend import language as another_name
from softnpu.tilelang_ascend.errors import KernelError
from tests.tilelang.harness import host_kernel


def test_loops_and_mutable_scalars():
    @T.prim_func
    def loops(out: T.Tensor((8, 8), "int32"), limit: T.int32):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            if vid == 0:
                tile = T.alloc_ub((8, 8), "int32")
                total = T.alloc_var("int32")
                down = T.alloc_var("int32", init=limit)
                T.tile.clear(tile)
                for i in range(8):
                    for j in T.serial(i, 8):
                        total += 1
                        tile[i, j] = total
                while down > 0:
                    down = down - 3
                    if down < 3:
                        tile[7, 0] = down
                        T.loop_break()
                for i, j in T.grid(2, 3):
                    tile[i + 4, j] += 100 * (i * 3 + j)
                for i in T.unroll(2):
                    tile[6, i] = -total
                T.copy(tile, out)

    want = torch.zeros(8, 8, dtype=torch.int32)
    total = 0
    for i in range(8):
        for j in range(i, 8):
            total += 1
            want[i, j] = total
    want[7, 0] = 2
    want[4:6, :3] += torch.arange(6).reshape(2, 3).int() * 100
    want[6, :2] = -total
    assert torch.equal(host_kernel(loops, out_idx=[0])(20), want)


def test_python_values_are_decided_while_tracing():
    flags, use_scale = {"negate": True}, None

    @another_name.prim_func
    def decided(a: T.Tensor((16,), "float32"), out: T.Tensor((16,), "float32")):
        with another_name.Kernel(1, is_npu=True) as (_, vid):
            tile = another_name.alloc_ub(16, "float32")
            another_name.copy(a, tile)
            if flags["negate"] and use_scale is None:
                T.tile.mul(tile, tile, -1.0)
            elif use_scale:
                T.tile.nothing_of_the_kind(tile)
            T.tile.add(tile, tile, 2.0 if flags["negate"] else this_name_does_not_exist)  # noqa: F821
            another_name.copy(tile, out)

    a = torch.randn(16)
    assert torch.equal(host_kernel(decided, out_idx=[-1])(a), -a + 2)


def test_device_conditions():
    @T.prim_func
    def branches(out: T.Tensor((2, 16), "int32"), low: T.int32, high: T.float32):
        with T.Kernel(2, is_npu=True) as (cid, vid):
            tile = T.alloc_ub((16,), "int32")
            for i in T.serial(16):
                if low < i <= 9 and not i == 5:
                    tile[i] = 1
                elif i == 0 or T.cast(i, "float32") > high:
                    tile[i] = 2
                else:
                    tile[i] = T.if_then_else(cid == 1, 3, 4)
                tile[i] = tile[i] + (10 if i % 2 == 0 else 20)
            T.copy(tile, out[cid, :])

    out = host_kernel(branches, out_idx=[0])(2, 12.5)

    def value(cid, i):
        if 2 < i <= 9 and i != 5:
            base = 1
        elif i == 0 or i > 12.5:
            base = 2
        else:
            base = 3 if cid == 1 else 4
        return base + (10 if i % 2 == 0 else 20)

    assert out.tolist() == [[value(cid, i) for i in range(16)] for cid in (0, 1)]


def test_integer_arithmetic_truncates_and_wraps():
    @T.prim_func
    def arithmetic(a: T.Tensor((8,), "int32"), out: T.Tensor((9, 8), "int32"), by: T.int32):
        with T.Kernel(1, is_npu=True) as (_, vid):
            tile, res = T.alloc_ub((8,), "int32"), T.alloc_ub((9, 8), "int32")
            T.copy(a, tile)
            for i in T.serial(8):
                x = tile[i]
                res[0, i] = x // by
                res[1, i] = x % by
                res[2, i] = x // 4
                res[3, i] = x * 1664525 + 1013904223
                res[4, i] = (x & 255) ^ (x << 3) | (x >> 1)
                res[5, i] = ~x
                res[6, i] = T.max(x, 5) - T.min(x, by)
                res[7, i] = T.reinterpret("int32", T.cast(x, "float32"))
                res[8, i] = T.abs(x) + T.ceildiv(x + 100, 7)
            T.copy(res, out)

    a = torch.tensor([7, -7, 0, 100, -100, 2**30, 1, -1], dtype=torch.int32)
    out = host_kernel(arithmetic, out_idx=[1])(a, -3)
    wide = a.long()
    want = [
        torch.div(wide, -3, rounding_mode="trunc"), torch.fmod(wide, -3),
        torch.div(wide, 4, rounding_mode="trunc"), wide * 1664525 + 1013904223,
        (wide & 255) ^ (wide << 3) | (wide >> 1), ~wide,
        wide.clamp(min=5) - wide.clamp(max=-3), a.float().view(torch.int32).long(),
        wide.abs() + torch.div(wide + 106, 7, rounding_mode="trunc"),
    ]  # fmt: skip
    for row, value in zip(out, want, strict=True):
        assert torch.equal(row, value.to(torch.int32))


def test_scalar_math():
    names = ["exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "floor", "ceil",
             "round", "trunc", "exp2", "log2", "erf"]  # fmt: skip

    def each(tile, out):
        for row, name in enumerate(names):
            for_each_element(getattr(T, name), tile, out, row)

    @T.macro
    def for_each_element(function, tile, out, row):
        for i in T.serial(16):
            out[row, i] = function(tile[i])

    @T.prim_func
    def maths(a: T.Tensor((16,), "float32"), out: T.Tensor((len(names), 16), "float32")):
        with T.Kernel(1, is_npu=True) as (_, vid):
            tile, res = T.alloc_ub((16,), "float32"), T.alloc_ub((len(names), 16), "float32")
            T.copy(a, tile)
            each(tile, res)
            T.copy(res, out)

    a = torch.rand(16) * 4 + 0.25
    out = host_kernel(maths, out_idx=[1])(a)
    for name, row in zip(names, out, strict=True):
        torch.testing.assert_close(row, getattr(torch, name)(a), msg=lambda t, n=name: f"{n}: {t}")


def test_macros_take_buffers_and_return_values():
    factor = 3

    @T.macro
    def scaled(tile, row, by=1.0):
        T.tile.mul(tile[row, :], tile[row, :], by * factor)
        return row + 1

    @T.prim_func
    def uses(a: T.Tensor((2, 16), "float32"), out: T.Tensor((2, 16), "float32")):
        with T.Kernel(1, is_npu=True) as (_, vid):
            tile = T.alloc_ub((2, 16), "float32")

            @T.macro
            def store(row):
                T.copy(tile[row, :], out[row, :])

            T.copy(a, tile)
            following = scaled(tile, 0)
            scaled(tile, following, by=2.0)
            for row in T.serial(2):
                store(row)

    a = torch.randn(2, 16)
    assert torch.equal(host_kernel(uses, out_idx=[1])(a), a * torch.tensor([[3.0], [6.0]]))


def test_scalars_from_tiles_and_global_memory():
    @T.prim_func
    def moves(
        table: T.Tensor((4,), "int32"), a: T.Tensor((4, 16), "float16"),
        out: T.Tensor((4, 16), "float16"), sums: T.Tensor((4,), "float32"),
    ):  # fmt: skip
        with T.Kernel(4, is_npu=True) as (cid, vid):
            row = table[cid]
            tile = T.alloc_ub((16,), "float16")
            T.copy(a[row, :], tile)
            scale = tile[3] + tile[4]
            T.tile.mul(tile, tile, scale)
            T.copy(tile, out[cid, :])
            if vid == 1:
                sums[cid] = T.cast(tile[0], "float32") + a[row, 1]

    table = torch.tensor([2, 0, 3, 1], dtype=torch.int32)
    a = torch.randn(4, 16).half()
    out, sums = host_kernel(moves, out_idx=[2, 3])(table, a)
    picked = a[table.long()]
    want = picked * (picked[:, 3] + picked[:, 4])[:, None]
    assert torch.equal(out, want)
    torch.testing.assert_close(sums, want[:, 0].float() + picked[:, 1].float())


def test_views_end_with_their_block():
    @T.prim_func
    def views(out: T.Tensor((2, 8), "int32")):
        with T.Kernel(1, is_npu=True) as (_, vid):
            ones = T.alloc_ub((8,), "float32")
            tile = T.alloc_ub((8,), "int32")
            T.tile.fill(ones, 1.0)
            T.tile.fill(tile, 5)
            for i in T.serial(1):
                T.reinterpretcast(tile, ones, "int32_t")
                T.copy(tile, out[0, :])
            T.copy(tile, out[1, :])

    out = host_kernel(views, out_idx=[0])()
    assert out.tolist() == [[0x3F800000] * 8, [5] * 8]


def test_vidless_kernels_describe_both_cores():
    @T.prim_func
    def both(a: T.Tensor((64, 700), "float32"), out: T.Tensor((64, 700), "float32")):
        with T.Kernel(1, threads=2, is_npu=True) as cid:
            tile = T.alloc_ub((64, 700), "float32")  # more than one core's buffer
            T.copy(a[cid * 64, 0], tile)
            for i, j in T.Parallel(64, 700):
                tile[i, j] = tile[i, j] * 2.0
            T.copy(tile, out[cid * 64, 0])

    a = torch.randn(64, 700)
    assert torch.equal(host_kernel(both, out_idx=[1])(a), a * 2)

    @T.prim_func
    def halves(out: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=2, is_npu=True) as cid:
            tile, sums = T.alloc_ub((4, 8), "float32"), T.alloc_ub((8,), "float32")
            T.tile.clear(tile)
            T.reduce_sum(tile, sums, dim=0)
            T.copy(sums, out)

    with pytest.raises(KernelError, match="reduction over rows in a kernel with threads=2"):
        host_kernel(halves, out_idx=[0])


def test_printf(capfd):
    @T.prim_func
    def prints(a: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(2, is_npu=True) as (cid, vid):
            tile = T.alloc_ub((8,), "float32")
            T.copy(a, tile)
            if vid == 0:
                T.printf("block %d of %s: %5.2f 100%% %x\n", cid, "two", tile[1], n)

    host_kernel(prints)(torch.arange(8.0), 255)
    assert capfd.readouterr().out == "".join(f"block {i} of two:  1.00 100% ff\n" for i in (0, 1))


def test_both_cores_run_every_statement():
    @T.prim_func
    def counts(out: T.Tensor((2,), "int32")):
        with T.Kernel(3, is_npu=True) as (cid, vid):
            with T.Scope("V"):
                one = T.alloc_ub((8,), "int32")
                T.tile.fill(one, 1)
                T.tile.atomic_add(out[vid : vid + 1], one[0:1])

    out = torch.zeros(2, dtype=torch.int32)
    host_kernel(counts)(out)
    assert out.tolist() == [3, 3]


def test_branches_as_with_blocks():
    @T.prim_func
    def branches(out: T.Tensor((8,), "int32"), low: T.int32):
        with T.Kernel(1, is_npu=True) as (_, vid):
            tile = T.alloc_ub((8,), "int32")
            T.tile.clear(tile)
            for i in T.serial(8):
                with T.If(i > low):
                    with T.Then():
                        with T.If(i > 5):
                            with T.Then():
                                tile[i] = 2
                    with T.Else():
                        tile[i] = 1
            T.copy(tile, out)

    assert host_kernel(branches, out_idx=[0])(3).tolist() == [1, 1, 1, 1, 0, 0, 2, 2]
