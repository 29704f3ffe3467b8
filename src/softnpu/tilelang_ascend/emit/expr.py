"""Scalar expressions in C++.

Values of float16 and bfloat16 are carried as `float` and rounded after every operation. An index
that cannot be proven to be inside its buffer is checked where it is used; the statement then
ends with a test of `task.failed`.
"""

from __future__ import annotations

from ..affine import constant, linear, span
from ..arith import COMPARISONS
from ..dtypes import BOOL, DType
from ..ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Dim,
    Expr,
    Load,
    LocalVar,
    Select,
    Unary,
    Var,
)
from ..regions import shape_text
from .literals import Names, Places, literal, quoted

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "land": "&&",
    "lor": "||",
}  # fmt: skip
_CALLS = {
    "min": "sn::min<{v}>({a}, {b})", "max": "sn::max<{v}>({a}, {b})",
    "pow": "sn::pow<{v}>({a}, {b})", "shl": "sn::shl<{v}>({a}, {b})",
    "shr": "sn::shr<{v}>({a}, {b})",
}  # fmt: skip
_UNARY = {
    "neg": "(-{a})", "not": "(~{a})", "lnot": "(!{a})", "rsqrt": "(1.0f / sn::sqrt({a}))",
    "round": "sn::rint({a})",
}  # fmt: skip


class ExprEmitter:
    """Turns expressions into C++ text. `can_fail` is set when one of them may report a fault."""

    def __init__(self, names: Names, places: Places) -> None:
        self.names, self.places = names, places
        self.can_fail = False
        self.proven: set[int] = set()  # element accesses whose indices are checked beforehand
        self.loop_vars: set[int] = set()

    # -- values ------------------------------------------------------------------------------

    def value(self, expr: Expr) -> str:
        """`expr` as a C++ expression of its dtype's value type."""
        if isinstance(expr, Const):
            return literal(expr)
        if isinstance(expr, Var):
            return self.var(expr)
        if isinstance(expr, LocalVar):
            return self.names.of("m_", expr)
        if isinstance(expr, Load):
            return self.load(expr)
        if isinstance(expr, Select):
            parts = (self.value(expr.cond), self.value(expr.a), self.value(expr.b))
            return "({} ? {} : {})".format(*parts)
        if isinstance(expr, Cast):
            return self.cast(expr)
        if isinstance(expr, Unary):
            text = _UNARY.get(expr.op, f"sn::{expr.op}({{a}})").format(a=self.value(expr.a))
            return self.rounded(text, expr.dtype)
        assert isinstance(expr, Binary), expr
        return self.binary(expr)

    def var(self, var: Var) -> str:
        name = self.names.of("v_", var)
        return f"static_cast<{var.dtype.value}>({name})" if id(var) in self.loop_vars else name

    def rounded(self, text: str, dtype: DType) -> str:
        """`text`, the result of one operation, brought to the precision of `dtype`."""
        if dtype.name == "float16":
            return f"sn::as_half({text})"
        if dtype.name == "bfloat16":
            return f"sn::as_bf16({text})"
        if dtype.is_int and dtype.bits < 32:
            return f"static_cast<{dtype.value}>({text})"
        return text

    def binary(self, expr: Binary) -> str:
        a, b = self.value(expr.a), self.value(expr.b)
        if expr.op in ("floordiv", "mod"):
            return self.division(expr, a, b)
        if expr.op in _CALLS:
            return self.rounded(_CALLS[expr.op].format(v=expr.a.dtype.value, a=a, b=b), expr.dtype)
        text = f"({a} {_INFIX[expr.op]} {b})"
        exact = expr.op in COMPARISONS or expr.dtype is BOOL
        return text if exact else self.rounded(text, expr.dtype)

    def division(self, expr: Binary, a: str, b: str) -> str:
        if isinstance(expr.b, Const) and expr.b.value not in (0, -1):
            sign = "/" if expr.op == "floordiv" else "%"
            return self.rounded(f"({a} {sign} {b})", expr.dtype)
        self.can_fail = True
        name = "quotient" if expr.op == "floordiv" else "remainder"
        return f"task.{name}<{expr.dtype.value}>({a}, {b}, {self.places.of(expr.loc)})"

    def cast(self, expr: Cast) -> str:
        inner, source, target = self.value(expr.a), expr.a.dtype, expr.dtype
        if expr.bits:
            return self.reinterpret(inner, source, target)
        if target is BOOL:
            return f"({inner} != 0)"
        text = f"sn::convert<{target.value}>({inner})"
        exact = source is BOOL or (source.bits < target.bits and source.is_float == target.is_float)
        return text if exact or not target.is_float else self.rounded(text, target)

    def reinterpret(self, inner: str, source: DType, target: DType) -> str:
        if source.is_float and source.bits == 16:
            kind = "half" if source.name == "float16" else "bf16"
            inner = f"sn::to_{kind}({inner}).bits"
        if target.is_float and target.bits == 16:
            return f"sn::load({target.cpp}{{sn::bits_to<uint16_t>({inner})}})"
        return f"sn::bits_to<{target.value}>({inner})"

    # -- indices -----------------------------------------------------------------------------

    def index(self, value: Dim) -> str:
        """An integer as int64, written as a sum of products so that loops over it vectorise."""
        if not isinstance(value, Expr):
            return f"INT64_C({int(value)})"
        terms, rest = linear(value)
        parts = []
        for atom, factor in terms.values():
            text = self._atom(atom)
            parts.append(text if factor == 1 else f"{text} * {factor}")
        if rest or not parts:
            parts.append(f"INT64_C({rest})")
        return parts[0] if len(parts) == 1 else "(" + " + ".join(parts) + ")"

    def _atom(self, atom: Expr) -> str:
        if isinstance(atom, Var) and id(atom) in self.loop_vars:
            return self.names.of("v_", atom)
        return f"static_cast<int64_t>({self.value(atom)})"

    def strides(self, buffer: Buffer) -> list[str]:
        """The distance, in elements, between neighbours in each dimension."""
        result, text, known = [], "", 1
        for dim in reversed(buffer.shape):
            result.append(f"{text} * {known}" if text else f"INT64_C({known})")
            size = constant(dim)
            if size is None:
                text = f"{text} * {self.index(dim)}" if text else self.index(dim)
            else:
                known *= size
        return result[::-1]

    def offset(self, buffer: Buffer, indices: list[str]) -> str:
        """The flat position of an element, from its checked indices."""
        parts = []
        for text, stride in zip(indices, self.strides(buffer), strict=True):
            if text != "INT64_C(0)":
                parts.append(text if stride == "INT64_C(1)" else f"{text} * {stride}")
        return " + ".join(parts) or "INT64_C(0)"

    def is_inside(self, low: Dim, extent: Dim, dim: Dim) -> bool:
        """Whether [low, low + extent) is inside a dimension in every run."""
        lows, length, size = span(low), span(extent), span(dim)
        if lows is None or length is None or size is None:
            return False
        return lows[0] >= 0 and lows[1] + length[1] <= size[0]

    def element(self, access: Load) -> list[str]:
        """The indices of one element, checked where they need it."""
        texts = []
        for axis, (index, dim) in enumerate(zip(access.indices, access.buffer.shape, strict=True)):
            text = self.index(index)
            if id(access) not in self.proven and not self.is_inside(index, 1, dim):
                text = self.checked(access, axis, text, dim)
            texts.append(text)
        return texts

    def checked(self, access: Load, axis: int, text: str, dim: Dim) -> str:
        self.can_fail = True
        place = self.places.of(access.loc)
        if access.buffer.scope == "gm":
            gm = self.names.of("g_", access.buffer)
            return f"{gm}.index(task, {text}, {self.index(dim)}, {axis}, {place})"
        name = quoted(access.buffer.name + shape_text(access.buffer))
        return f"task.index({text}, {self.index(dim)}, {name}, {axis}, {place})"

    def load(self, access: Load) -> str:
        flat = self.offset(access.buffer, self.element(access))
        if access.buffer.scope == "gm":
            self.can_fail = True
            gm = self.names.of("g_", access.buffer)
            text = f"{gm}.load(task, {flat}, {self.places.of(access.loc)})"
        else:
            text = f"sn::load({self.names.of('b_', access.buffer)}[{flat}])"
        return f"({text} != 0)" if access.buffer.dtype is BOOL else text

    def scalar(self, expr: Expr, dtype: DType) -> str:
        """`expr` as a value of `dtype`."""
        text = self.value(expr)
        return text if expr.dtype is dtype else f"static_cast<{dtype.value}>({text})"
