"""The element-wise vector instructions of `T.tile`, one row each.

A row is all there is to an intrinsic: the front-end makes the language function from it, the
checks take its arity and types, the emitter its C++ expression, the docs and the tests the rest.

`form` is the parameter list after the destination:
  v   one vector                      (dst, src)
  vv  two vectors                     (dst, src0, src1)
  vx  a vector, and a vector or scalar(dst, src0, src1)
  vs  a vector and a scalar           (dst, src, scalar)
  vsn / vssn / vn  as vs / two scalars / v, with a trailing element count
`expr` is C++ over x (src0), y (src1 or scalar), z (second scalar) and d (the old destination).
`kinds`: "f" float types, "i" signed, "u" unsigned. Float expressions are computed in float32 and
rounded once to the destination's type.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Intrinsic:
    name: str
    form: str
    expr: str
    kinds: str
    scalar: str = ""  # how a scalar operand is prepared, over s, in the buffer's type
    scalar_expr: str = ""  # the expression when src1 is a scalar, if another than `expr`
    note: str = ""


_ROWS = [
    Intrinsic("add", "vx", "x + y", "fiu"),
    Intrinsic("sub", "vx", "x - y", "fiu", "-s", "x + y", "a scalar is added negated"),
    Intrinsic("mul", "vx", "x * y", "fiu"),
    Intrinsic("div", "vx", "x / y", "f", "1.0f / s", "x * y", "by a scalar: times its reciprocal"),
    Intrinsic("max", "vx", "sn::max(x, y)", "fiu", note="NaN if either is"),
    Intrinsic("min", "vx", "sn::min(x, y)", "fiu", note="NaN if either is"),
    Intrinsic("bitwise_and", "vx", "x & y", "iu"),
    Intrinsic("bitwise_or", "vx", "x | y", "iu"),
    Intrinsic("bitwise_xor", "vv", "x ^ y", "iu"),
    Intrinsic("pow", "vv", "sn::pow(x, y)", "fi"),
    Intrinsic("exp", "v", "sn::exp(x)", "f"),
    Intrinsic("ln", "v", "sn::log(x)", "f"),
    Intrinsic("abs", "v", "sn::abs(x)", "fi"),
    Intrinsic("reciprocal", "v", "1.0f / x", "f", note="exact, not the chip's estimate"),
    Intrinsic("sqrt", "v", "sn::sqrt(x)", "f"),
    Intrinsic("rsqrt", "v", "1.0f / sn::sqrt(x)", "f", note="exact, not the chip's estimate"),
    Intrinsic("relu", "v", "sn::max(x, decltype(x)(0))", "fi"),
    Intrinsic("bitwise_not", "v", "~x", "iu"),
    Intrinsic("sigmoid", "v", "1.0f / (1.0f + sn::exp(-x))", "f"),
    Intrinsic("silu", "v", "x / (1.0f + sn::exp(-x))", "f"),
    Intrinsic("sin", "v", "sn::sin(x)", "f"),
    Intrinsic("cos", "v", "sn::cos(x)", "f"),
    Intrinsic("round", "vn", "sn::rint(x)", "f", note="ties to even"),
    Intrinsic("leaky_relu", "vs", "x >= 0 ? x : x * y", "f"),
    Intrinsic("axpy", "vs", "d + x * y", "f", note="product and sum are rounded apart in fp32"),
    Intrinsic("mul_add_dst", "vv", "d + x * y", "f", note="as axpy"),
    Intrinsic("bitwise_lshift", "vs", "sn::shl(x, y)", "iu"),
    Intrinsic("bitwise_rshift", "vs", "sn::shr(x, y)", "iu", note="arithmetic for signed types"),
    Intrinsic("clamp", "vssn", "sn::min(sn::max(x, y), z)", "fi"),
    Intrinsic("clamp_max", "vsn", "sn::min(x, y)", "fi"),
    Intrinsic("clamp_min", "vsn", "sn::max(x, y)", "fi"),
]
TABLE = {row.name: row for row in _ROWS}

ROUNDING = {
    "CAST_NONE": "sn::Round::none",
    "CAST_RINT": "sn::Round::rint",
    "CAST_FLOOR": "sn::Round::floor",
    "CAST_CEIL": "sn::Round::ceil",
    "CAST_ROUND": "sn::Round::round",
    "CAST_TRUNC": "sn::Round::trunc",
    "CAST_ODD": "sn::Round::odd",
}
COMPARE = {
    "EQ": "x == y",
    "NE": "x != y",
    "GT": "x > y",
    "GE": "x >= y",
    "LT": "x < y",
    "LE": "x <= y",
}
SELECT_MODES = ("VSEL_CMPMASK_SPR", "VSEL_TENSOR_SCALAR_MODE", "VSEL_TENSOR_TENSOR_MODE")
# Which elements of every group `gather_mask` keeps: (group size, position), or None for all.
GATHER_PATTERNS = {
    "P0101": (2, 0), "P1010": (2, 1), "P0001": (4, 0), "P0010": (4, 1), "P0100": (4, 2),
    "P1000": (4, 3), "P1111": (1, 0),
}  # fmt: skip

# Names of the language that are refused when used, and what is missing.
_CUBE = "the cube core is not emulated yet"
_CROSS = "synchronisation between cores is not emulated yet"
UNSUPPORTED = {
    **dict.fromkeys(
        ["alloc_L1", "alloc_L0A", "alloc_L0B", "alloc_L0C", "alloc_fragment", "gemm_v0", "gemm",
         "mma", "use_swizzle", "c2d_im2col"], _CUBE),
    **dict.fromkeys(["set_cross_flag", "wait_cross_flag", "sync_all"], _CROSS),
    **dict.fromkeys(
        ["shmem_put_nbi", "shmem_get_nbi", "shmem_ub_put_nbi", "shmem_ub_get_nbi"],
        "communication between devices is not emulated"),
    "Persistent": "persistent scheduling is not emulated yet",
    "dump_tensor": "use T.printf",
    "alloc_local": "use T.alloc_ub for tiles and T.alloc_var for scalars",
}  # fmt: skip
UNSUPPORTED_TILE = {
    **dict.fromkeys(
        ["sort32", "init_sort_buf", "gatherb", "transpose", "brcb", "brcb_experiment",
         "bilinear_interpolation",
         "row_expand_mul", "row_expand_mul_experiment", "row_expand_sub_experiment",
         "row_expand_div_experiment", "wholereducemax", "wholereducemin", "wholereducesum",
         "block_reduce_max", "block_reduce_min", "block_reduce_sum", "sub_experiment",
         "abs_experiment", "mins_experiment", "reduce_sum_experiment",
         "reduce_sum_mask_experiment", "gathermask_experiment", "fill_experiment",
         "sum_experiment", "datacachecleanandinvalid_experiment"],
        "this instruction is not emulated yet"),
}  # fmt: skip
