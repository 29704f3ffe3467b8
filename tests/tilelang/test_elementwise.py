"""Every element-wise instruction of the table against torch, on the dtypes it takes."""

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend.intrinsics import TABLE
from tests.tilelang.harness import Fault, host_kernel

N = 301  # no multiple of any vector length
COUNT = 150  # what instructions with a count operand touch

# Over x and y in the type that torch computes in; `s` is the scalar operand.
REFERENCE = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "max": torch.maximum,
    "min": torch.minimum,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "pow": lambda x, y: torch.pow(x, y),
    "exp": torch.exp,
    "ln": torch.log,
    "abs": torch.abs,
    "reciprocal": torch.reciprocal,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "relu": torch.relu,
    "bitwise_not": torch.bitwise_not,
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "sin": torch.sin,
    "cos": torch.cos,
    "round": torch.round,
    "leaky_relu": lambda x, s: torch.where(x >= 0, x, x * s),
    "axpy": lambda d, x, s: d + x * s,
    "mul_add_dst": lambda d, x, y: d + x * y,
    "bitwise_lshift": lambda x, s: x << s,
    "bitwise_rshift": lambda x, s: x >> s,
    "clamp": lambda x, low, high: torch.clamp(x, low, high),
    "clamp_max": lambda x, s: torch.clamp(x, max=s),
    "clamp_min": lambda x, s: torch.clamp(x, min=s),
}
# torch's own sqrt is off by one unit in the last place at times; ours is exact.
APPROXIMATE = {"exp", "sigmoid", "silu", "sin", "cos", "pow", "sqrt", "rsqrt", "ln"}
READS_OLD = {"axpy", "mul_add_dst"}


def cases(dtype):
    """(instruction, operands after dst): vectors as "x" and "y", scalars as numbers."""
    kind = "f" if dtype.is_floating_point else "i"
    result = []
    for row in TABLE.values():
        if kind not in row.kinds:
            continue
        number = 3 if "shift" in row.name or kind == "i" else 0.75
        options = {
            "v": [["x"]],
            "vn": [["x", COUNT]],
            "vv": [["x", "y"]],
            "vx": [["x", "y"], ["x", number]],
            "vs": [["x", number]],
            "vsn": [["x", number, COUNT]],
            "vssn": [["x", -number, number, COUNT]],
        }[row.form]
        result += [(row.name, operands) for operands in options]
    return result


def apply_all(plan, tiles, scratch, out):
    """Runs inside a kernel, as ordinary Python: one instruction per row of `out`."""
    for i, (name, operands) in enumerate(plan):
        T.copy(tiles["old"], scratch)
        values = [tiles.get(v, v) if isinstance(v, str) else v for v in operands]
        getattr(T.tile, name)(scratch, *values)
        T.copy(scratch, out[i, :])


def build(plan, dtype):
    rows = len(plan)

    @T.prim_func
    def every(
        x: T.Tensor((N,), dtype),
        y: T.Tensor((N,), dtype),
        old: T.Tensor((N,), dtype),
        out: T.Tensor((rows, N), dtype),
    ):
        with T.Kernel(1, is_npu=True) as (_, vid):
            x_ub = T.alloc_ub((N,), dtype)
            y_ub = T.alloc_ub((N,), dtype)
            old_ub = T.alloc_ub((N,), dtype)
            scratch = T.alloc_ub((N,), dtype)
            T.copy(x, x_ub)
            T.copy(y, y_ub)
            T.copy(old, old_ub)
            apply_all(plan, {"x": x_ub, "y": y_ub, "old": old_ub}, scratch, out)

    return every


def inputs(dtype):
    torch.manual_seed(0)
    if not dtype.is_floating_point:
        return [torch.randint(-90, 90, (N,)).to(dtype), torch.randint(0, 5, (N,)).to(dtype),
                torch.randint(-90, 90, (N,)).to(dtype)]  # fmt: skip
    x = torch.randn(N) * 3
    x[:6] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 0.5])
    return [x.to(dtype), (torch.rand(N) * 3 + 0.1).to(dtype), torch.randn(N).to(dtype)]


def expected(name, operands, tensors, dtype):
    wide = torch.float32 if dtype.is_floating_point else torch.int64
    values = [tensors[v].to(wide) if isinstance(v, str) else v for v in operands]
    old = tensors["old"]
    count = values.pop() if TABLE[name].form.endswith("n") else N
    scalar = values[1] if len(values) > 1 and not torch.is_tensor(values[1]) else None
    if name in READS_OLD:
        values.insert(0, old.to(wide))
    if name == "div" and scalar is not None:  # times the reciprocal, in the tile's own type
        reciprocal = (1 / torch.tensor(float(scalar))).to(dtype).float()
        result = values[0] * reciprocal
    elif scalar is not None and name in ("max", "min"):
        result = REFERENCE[name](values[0], torch.tensor(scalar, dtype=wide))
    else:
        result = REFERENCE[name](*values)
    return torch.cat([result[:count].to(dtype), old[count:]])


def test_every_instruction_has_a_reference():
    assert set(REFERENCE) == set(TABLE)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int32", "int16"])
def test_table_against_torch(name):
    dtype = getattr(torch, name)
    plan = cases(dtype)
    x, y, old = inputs(dtype)
    out = host_kernel(build(plan, name), out_idx=[-1])(x, y, old)
    tensors = {"x": x, "y": y, "old": old}
    for (op, operands), row in zip(plan, out, strict=True):
        tolerance = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}.get(dtype, 0)
        if op not in APPROXIMATE:
            tolerance = 0
        want = expected(op, operands, tensors, dtype)
        same = torch.isclose(row, want, tolerance, tolerance * 1e-2, equal_nan=True)
        assert same.all(), f"{op}{operands}: {row[~same]} instead of {want[~same]}"


def test_a_result_over_its_source_is_a_fault():
    @T.prim_func
    def rows(a: T.Tensor((4, 40), "float32"), out: T.Tensor((4, 40), "float32")):
        with T.Kernel(1, is_npu=True) as (_, vid):
            tile = T.alloc_ub((4, 40), "float32")
            scale = T.alloc_ub((4,), "float32")
            T.copy(a, tile)
            for i in T.serial(4):
                scale[i] = T.cast(i + 1, "float32")
            for i in T.serial(4):
                T.tile.mul(tile[i, :], tile[i, :], scale[i])
            T.tile.add(tile[1:3, :], tile[1:3, :], tile[0:2, :])
            T.copy(tile, out)

    a = torch.randn(4, 40)
    with pytest.raises(Fault, match="begins inside the source"):
        host_kernel(rows, out_idx=[-1])(a)


def test_operations_round_in_their_own_type():
    """2048 + 1 is no float16: a sum that is rounded after each step stays at 2048."""

    @T.prim_func
    def sums(out: T.Tensor((16,), "float16")):
        with T.Kernel(1, is_npu=True) as (_, vid):
            tile = T.alloc_ub((16,), "float16")
            T.tile.fill(tile, 2048.0)
            T.tile.add(tile, tile, 1.0)
            T.tile.add(tile, tile, 1.0)
            for i in T.Parallel(8):
                tile[i] = (tile[i] + 1.0) + 1.0
            T.copy(tile, out)

    assert host_kernel(sums, out_idx=[-1])().tolist() == [2048.0] * 16
