"""Evaluates shape and grid expressions on the host, for one call."""

from __future__ import annotations

from .arith import FOLD
from .ir import Binary, Cast, Const, Dim, Select, Unary, Var


def evaluate(dim: Dim, values: dict[Var, int]) -> int:
    """The value of `dim` given those of its variables.

    Raises KeyError for a variable without a value.
    """
    if isinstance(dim, int):
        return dim
    if isinstance(dim, Const):
        return int(dim.value)
    if isinstance(dim, Var):
        return values[dim] if dim.let is None else evaluate(dim.let, values)
    if isinstance(dim, Cast):
        return evaluate(dim.a, values)
    if isinstance(dim, Binary):
        return int(FOLD[dim.op](evaluate(dim.a, values), evaluate(dim.b, values)))
    if isinstance(dim, Select):
        return evaluate(dim.a if evaluate(dim.cond, values) else dim.b, values)
    if isinstance(dim, Unary) and dim.op in ("neg", "lnot"):
        inner = evaluate(dim.a, values)
        return -inner if dim.op == "neg" else int(not inner)
    raise KeyError(dim)
