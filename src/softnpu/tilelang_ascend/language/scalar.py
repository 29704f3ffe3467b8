"""Scalar expressions: arithmetic helpers, math, casts, and the scalar types themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..arith import as_expr, binary, bits_as, const, select, truth, unary
from ..arith import cast as convert
from ..dtypes import BOOL, DTYPES, F32, DType, dtype_of
from ..errors import KernelError
from ..ir import Expr
from ..primfunc import ScalarType

Number = Any  # a Python number or a device value


def ceildiv(a: Number, b: Number) -> Any:
    """`a / b` rounded up; an int if both are Python ints."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return (a + (b - 1)) // b


def floordiv(a: Number, b: Number) -> Any:
    """`a // b`: truncating for device values, like `//` itself."""
    return a // b


def floormod(a: Number, b: Number) -> Any:
    """`a % b`, with the sign of `a` for device values."""
    return a % b


truncdiv, truncmod = floordiv, floormod


def max(a: Number, b: Number) -> Expr:
    """The larger value; NaN if either is."""
    return binary("max", a, b)


def min(a: Number, b: Number) -> Expr:
    """The smaller value; NaN if either is."""
    return binary("min", a, b)


def clamp(value: Number, low: Number, high: Number) -> Expr:
    """`value` limited to `low` … `high`."""
    return min(max(value, low), high)


def if_then_else(cond: Number, then: Number, other: Number) -> Expr:
    """`then` if `cond` holds, else `other`; only the chosen one is evaluated."""
    return select(cond, then, other)


Select = if_then_else


def And(*values: Number) -> Expr:
    """Logical and; later values are evaluated only if all earlier ones hold."""
    return _chain("land", values)


def Or(*values: Number) -> Expr:
    """Logical or; later values are evaluated only if no earlier one holds."""
    return _chain("lor", values)


def Not(value: Number) -> Expr:
    """Logical not."""
    return unary("lnot", truth(value))


def _chain(op: str, values: tuple[Number, ...]) -> Expr:
    result = truth(values[0])
    for value in values[1:]:
        result = binary(op, result, truth(value))
    return result


def cast(value: Number, dtype: Any) -> Expr:
    """`value` as `dtype`. Also accepts the order (dtype, value) of `T.Cast`."""
    if isinstance(value, str):
        value, dtype = dtype, value
    return convert(value, dtype_of(dtype))


def Cast(dtype: Any, value: Number) -> Expr:
    """`value` as `dtype`."""
    return convert(value, dtype_of(dtype))


def reinterpret(first: Any, second: Any) -> Expr:
    """The bits of a value as another type of the same size; type and value in either order."""
    dtype, value = (first, second) if isinstance(first, str) else (second, first)
    return bits_as(value, dtype_of(dtype))


def infinity(dtype: Any = "float32") -> Expr:
    """Positive infinity of a float type."""
    kind = dtype_of(dtype)
    if not kind.is_float:
        raise KernelError(f"{kind} has no infinity")
    return const(math.inf, kind)


def min_value(dtype: Any) -> Expr:
    """The smallest finite value of a type."""
    return const(_limit(dtype_of(dtype), low=True), dtype_of(dtype))


def max_value(dtype: Any) -> Expr:
    """The largest finite value of a type."""
    return const(_limit(dtype_of(dtype), low=False), dtype_of(dtype))


_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38,
            "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}  # fmt: skip


def _limit(dtype: DType, low: bool) -> int | float:
    if dtype.is_float:
        return -_LARGEST[dtype.name] if low else _LARGEST[dtype.name]
    if low:
        return -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    return (1 << (dtype.bits - (dtype.kind == "i"))) - 1


MATH = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "floor",
        "ceil", "round", "trunc", "erf")  # fmt: skip


def _math(op: str) -> Callable[[Number], Expr]:
    def apply(value: Number) -> Expr:
        expr = as_expr(value)
        if not expr.dtype.is_float:
            expr = convert(expr, F32)
        return unary(op, expr)

    apply.__name__, apply.__doc__ = op, f"{op} of a float; integers are taken as float32."
    return apply


globals().update({op: _math(op) for op in MATH})


def abs(value: Number) -> Expr:
    """The absolute value."""
    return unary("abs", value)


def pow(base: Number, exponent: Number) -> Expr:
    """`base` to the power of `exponent`, in float."""
    left = as_expr(base)
    return binary("pow", left if left.dtype.is_float else convert(left, F32), exponent)


power = pow

SCALAR_TYPES = {name: ScalarType(name) for name in DTYPES if name != "bool"}
globals().update(SCALAR_TYPES)
globals()["bool"] = ScalarType(BOOL.name)
