"""Scalar arithmetic of the dialect: Python operators on IR expressions, with the type rules.

Type rules (as TVM's): a Python number takes the type of the other operand; int with float becomes
that float; two floats or two ints of different size become the larger one. `//` and `%` on device
values truncate like C, because upstream's code generator emits C's operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import builder
from .dtypes import BOOL, DTYPES, F32, I32, I64, DType
from .errors import KernelError
from .ir import Binary, Cast, Const, Expr, Select, Unary

Value = Expr | int | float | bool


def const(value: int | float | bool, dtype: DType | None = None) -> Const:
    """A constant; without `dtype`, Python's int is int32 (int64 if large), its float float32."""
    if dtype is None:
        if isinstance(value, bool):
            dtype = BOOL
        elif isinstance(value, int):
            dtype = I32 if -(2**31) <= value < 2**31 else I64
        else:
            dtype = F32
    if dtype.is_float:
        value = float(value)
    elif dtype is BOOL:
        value = bool(value)
    elif isinstance(value, float):
        if not math.isfinite(value) or value != int(value):
            raise KernelError(f"{value!r} is not a value of {dtype}")
        value = int(value)
    return Const(value, dtype)


def as_expr(value: Any, dtype: DType | None = None) -> Expr:
    """`value` as an expression; a Python number becomes a constant of `dtype`."""
    if isinstance(value, Expr):
        return value
    if hasattr(value, "item") and not isinstance(value, (int, float, bool)):
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return const(value, dtype)
    raise KernelError(f"expected a scalar, got {type(value).__name__}: {value!r}")


def unify(a: Value, b: Value) -> tuple[Expr, Expr]:
    """Both operands in their common type."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        a, b = as_expr(a), as_expr(b)
    elif not isinstance(a, Expr):
        assert isinstance(b, Expr)
        a = _number_like(a, b.dtype)
    elif not isinstance(b, Expr):
        b = _number_like(b, a.dtype)
    assert isinstance(a, Expr) and isinstance(b, Expr)
    common = _common(a.dtype, b.dtype)
    return cast(a, common), cast(b, common)


def _number_like(value: Any, dtype: DType) -> Expr:
    if isinstance(value, float) and not dtype.is_float:
        return const(value)
    if dtype is BOOL and not isinstance(value, bool):
        return const(value)
    return as_expr(value, dtype)


def _common(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    if a.is_float:  # float16 with bfloat16: neither holds the other
        return F32
    return a if a.kind == "u" else b


def cast(value: Value, dtype: DType) -> Expr:
    """`value` converted to `dtype`; float to int truncates towards zero, as in C."""
    expr = as_expr(value)
    if expr.dtype is dtype:
        return expr
    if isinstance(expr, Const):
        number = expr.value
        if isinstance(number, float) and not dtype.is_float and math.isfinite(number):
            number = math.trunc(number)
        if dtype.is_float or dtype is BOOL or _holds(dtype, number):
            return const(number, dtype)
    return Cast(expr, dtype)


def _holds(dtype: DType, number: Any) -> bool:
    if not isinstance(number, int):
        return False
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    high = (1 << (dtype.bits - (dtype.kind == "i"))) - 1
    return low <= number <= high


def _trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def _trunc_mod(a: int, b: int) -> int:
    return a - b * _trunc_div(a, b)


FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": _trunc_div,
    "mod": _trunc_mod,
    "min": min,
    "max": max,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "land": lambda a, b: a and b,
    "lor": lambda a, b: a or b,
}
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_INT_ONLY = frozenset({"and", "or", "xor", "shl", "shr"})


def _identity(op: str, a: Expr, b: Expr) -> Expr | None:
    """`x + 0`, `x * 1` and so on for integers, so that index expressions stay readable."""
    left = a.value if isinstance(a, Const) else None
    right = b.value if isinstance(b, Const) else None
    if not a.dtype.is_int:
        return None
    if right == 0 and op in ("add", "sub") or right == 1 and op in ("mul", "floordiv"):
        return a
    if left == 0 and op == "add" or left == 1 and op == "mul":
        return b
    if op == "mul" and 0 in (left, right):
        return const(0, a.dtype)
    return None


def binary(op: str, left: Value, right: Value) -> Expr:
    """`left op right` in the common type of both, folded if both are constants."""
    a, b = unify(left, right)
    if op in ("land", "lor"):
        a, b = truth(a), truth(b)
    elif a.dtype is BOOL and op not in COMPARISONS and op not in ("and", "or", "xor"):
        a, b = cast(a, I32), cast(b, I32)
    _check_types(op, a, b)
    dtype = BOOL if op in COMPARISONS or op in ("land", "lor") else a.dtype
    if isinstance(a, Const) and isinstance(b, Const):
        folded = _fold(op, a, b, dtype)
        if folded is not None:
            return folded
    simple = _identity(op, a, b)
    return simple if simple is not None else Binary(op, a, b, dtype, builder.here())


def _check_types(op: str, a: Expr, b: Expr) -> None:
    if op == "div" and not a.dtype.is_float:
        raise KernelError(
            f"'/' on {a.dtype} operands is ambiguous: use '//' (truncating), or cast to float"
        )
    if op in _INT_ONLY and a.dtype.is_float:
        raise KernelError(f"bitwise '{op}' needs integers, got {a.dtype}")
    divisor = b.value if isinstance(b, Const) else None
    if op in ("floordiv", "mod") and a.dtype.is_float:
        raise KernelError("'//' and '%' need integers in a kernel")
    if op in ("floordiv", "mod") and divisor == 0:
        raise KernelError("integer division by zero")


def _fold(op: str, a: Const, b: Const, dtype: DType) -> Expr | None:
    if a.dtype.is_float and op not in COMPARISONS:
        return None  # rounding is the target type's: leave it to the emitted code
    value = FOLD[op](a.value, b.value)
    return const(value, dtype) if dtype is BOOL or _holds(dtype, value) else None


def unary(op: str, value: Value, dtype: DType | None = None) -> Expr:
    """A unary operation whose result has the operand's type (or `dtype`)."""
    expr = as_expr(value)
    if isinstance(expr, Const) and op == "neg":
        return const(-expr.value, expr.dtype)
    return Unary(op, expr, dtype or expr.dtype)


def truth(value: Value) -> Expr:
    """`value` as a bool: non-zero is true."""
    expr = as_expr(value)
    return expr if expr.dtype is BOOL else binary("ne", expr, const(0, expr.dtype))


def select(cond: Value, a: Value, b: Value) -> Expr:
    """`a` where `cond` holds, else `b`, in their common type."""
    left, right = unify(a, b)
    test = truth(cond)
    if isinstance(test, Const):
        return left if test.value else right
    return Select(test, left, right, left.dtype)


def bits_as(value: Value, dtype: DType) -> Expr:
    """The bits of `value` read as `dtype` of the same size."""
    expr = as_expr(value)
    if expr.dtype.bits != dtype.bits:
        raise KernelError(f"cannot reinterpret {expr.dtype} as {dtype}: sizes differ")
    return Cast(expr, dtype, bits=True)


def _operator(op: str, swap: bool = False) -> Callable[[Expr, Any], Any]:
    def apply(self: Expr, other: Any) -> Any:
        if not isinstance(other, (Expr, int, float)) and not hasattr(other, "item"):
            return NotImplemented
        return binary(op, other, self) if swap else binary(op, self, other)

    return apply


def _refuse_bool(self: Expr) -> bool:
    raise KernelError(
        "a device value has no truth while the kernel is traced: Python's min/max/any and "
        "chained tests cannot take it; use T.min, T.max, T.if_then_else, T.And or T.Or"
    )


def _refuse_index(self: Expr) -> int:
    raise KernelError("a device value cannot be used where Python needs a number while tracing")


def _attach() -> None:
    names = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv",
        "mod": "mod", "and": "and", "or": "or", "xor": "xor", "lshift": "shl", "rshift": "shr",
    }  # fmt: skip
    for name, op in names.items():
        setattr(Expr, f"__{name}__", _operator(op))
        setattr(Expr, f"__r{name}__", _operator(op, swap=True))
    for op in COMPARISONS:
        setattr(Expr, f"__{op}__", _operator(op))
    for name in ("neg", "abs"):
        setattr(Expr, f"__{name}__", lambda self, op=name: unary(op, self))
    for name, apply in {
        "__pos__": lambda self: self,
        "__invert__": _invert,
        "__bool__": _refuse_bool,
        "__index__": _refuse_index,
        "__int__": _refuse_index,
        "__float__": _refuse_index,
        "astype": lambda self, dtype: cast(self, DTYPES[str(dtype)]),
    }.items():
        setattr(Expr, name, apply)


def _invert(self: Expr) -> Expr:
    if self.dtype.is_float:
        raise KernelError(f"bitwise '~' needs integers, got {self.dtype}")
    return unary("lnot" if self.dtype is BOOL else "not", self)


_attach()
