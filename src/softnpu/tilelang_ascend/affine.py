"""Reasoning about integer expressions: differences that are constant, and ranges of values."""

from __future__ import annotations

from collections.abc import Hashable

from .arith import as_expr, binary
from .ir import Binary, Cast, Const, Dim, Expr, Load, LocalVar, Select, Unary, Var

Span = tuple[int, int]


def key(expr: Expr) -> Hashable:
    """Equal for two expressions that are written the same."""
    if isinstance(expr, Const):
        return ("const", expr.value, expr.dtype.name)
    if isinstance(expr, Binary):
        return (expr.op, key(expr.a), key(expr.b))
    if isinstance(expr, Unary):
        return (expr.op, key(expr.a))
    if isinstance(expr, Cast):
        return ("cast", expr.dtype.name, key(expr.a))
    if isinstance(expr, Select):
        return ("select", key(expr.cond), key(expr.a), key(expr.b))
    return id(expr)


def is_pure(expr: Expr) -> bool:
    """Whether the value depends on immutable scalars only (no loads, no mutable variables)."""
    if isinstance(expr, (Load, LocalVar)):
        return False
    if isinstance(expr, Var):
        return expr.let is None or is_pure(expr.let)
    return all(is_pure(child) for child in operands(expr))


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions of `expr`; a let binding is not looked into."""
    if isinstance(expr, Binary):
        return (expr.a, expr.b)
    if isinstance(expr, (Unary, Cast)):
        return (expr.a,)
    if isinstance(expr, Select):
        return (expr.cond, expr.a, expr.b)
    if isinstance(expr, Load):
        return expr.indices
    return ()


Linear = dict[Hashable, tuple[Expr, int]]


def linear(expr: Expr) -> tuple[Linear, int]:
    """`expr` as a sum of atoms with integer factors, and a constant."""
    terms: Linear = {}
    return terms, _collect(expr, 1, terms)


def _collect(expr: Expr, factor: int, terms: Linear) -> int:
    if isinstance(expr, Const) and isinstance(expr.value, int):
        return factor * expr.value
    if isinstance(expr, Var) and expr.let is not None and is_pure(expr.let):
        return _collect(expr.let, factor, terms)
    if isinstance(expr, Cast) and expr.dtype.is_int and expr.a.dtype.is_int and not expr.bits:
        return _collect(expr.a, factor, terms)
    if isinstance(expr, Binary) and expr.dtype.is_int:
        if expr.op in ("add", "sub"):
            sign = factor if expr.op == "add" else -factor
            return _collect(expr.a, factor, terms) + _collect(expr.b, sign, terms)
        if expr.op == "mul":
            for scale, other in ((expr.a, expr.b), (expr.b, expr.a)):
                if isinstance(scale, Const):
                    return _collect(other, factor * scale.value, terms)
    name = key(expr)
    total = terms.get(name, (expr, 0))[1] + factor
    terms[name] = (expr, total)
    if total == 0:
        del terms[name]
    return 0


def constant(value: Dim) -> int | None:
    """The value of `value` if it is the same in every run, else None."""
    if not isinstance(value, Expr):
        return int(value)
    terms, rest = linear(value)
    return rest if not terms else None


def same(a: Dim, b: Dim) -> bool:
    """Whether `a` and `b` are provably equal."""
    return constant(binary("sub", a, b)) == 0


def difference(a: Dim, b: Dim) -> Dim:
    """`a - b`, as an int when the common part cancels out."""
    result = binary("sub", a, b)
    known = constant(result)
    return known if known is not None else result


def span(value: Dim) -> Span | None:
    """The inclusive range of an integer expression, or None where nothing is known."""
    if not isinstance(value, Expr):
        return int(value), int(value)
    if not (value.dtype.is_int or isinstance(value, Const)):
        return None
    terms, rest = linear(value)
    low = high = rest
    for atom, factor in terms.values():
        inner = _atom_span(atom)
        if inner is None:
            return None
        ends = sorted((inner[0] * factor, inner[1] * factor))
        low, high = low + ends[0], high + ends[1]
    return low, high


def _atom_span(expr: Expr) -> Span | None:
    if isinstance(expr, Var):
        return expr.span if expr.span is not None or expr.let is None else span(expr.let)
    if isinstance(expr, Select):
        sides = span(expr.a), span(expr.b)
        if sides[0] is None or sides[1] is None:
            return None
        return min(sides[0][0], sides[1][0]), max(sides[0][1], sides[1][1])
    if isinstance(expr, Binary):
        return _binary_span(expr.op, span(expr.a), span(expr.b))
    return None


def _binary_span(op: str, a: Span | None, b: Span | None) -> Span | None:
    if op == "mod" and b is not None and b[0] == b[1] and b[0] > 0:
        if a is not None and a[0] >= 0:
            return 0, min(a[1], b[0] - 1)
        return 1 - b[0], b[0] - 1
    if op == "and" and b is not None and b[0] == b[1] and b[0] >= 0:
        return 0, b[0]
    if a is None or b is None:
        return None
    if op == "floordiv" and b[0] == b[1] and b[0] > 0 and a[0] >= 0:
        return a[0] // b[0], a[1] // b[0]
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if op == "mul":
        ends = [x * y for x in a for y in b]
        return min(ends), max(ends)
    return None


def product(values: tuple[Dim, ...]) -> Dim:
    """The product of dimensions, as an int when all are known."""
    total: Dim = 1
    for value in values:
        total = binary("mul", as_expr(total), as_expr(value))
    known = constant(total)
    return known if known is not None else total
