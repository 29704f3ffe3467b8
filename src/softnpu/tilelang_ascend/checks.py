"""Checks of a whole traced kernel that a single statement cannot make."""

from __future__ import annotations

from .errors import KernelError
from .ir import Break, For, PrimFunc, Stmt, TileOp, While, children
from .walk import walk


def check(func: PrimFunc) -> None:
    """Raises KernelError for a kernel whose parts do not go together."""
    _breaks(func.body, inside=False)
    if func.threads == 2:
        _rows_independent(func)


def _breaks(body: list[Stmt], inside: bool) -> None:
    for stmt in body:
        if isinstance(stmt, Break) and not inside:
            raise KernelError("T.loop_break outside a loop", stmt.loc)
        is_loop = isinstance(stmt, (For, While))
        if isinstance(stmt, For) and (stmt.parallel or len(stmt.indices) > 1):
            for inner in stmt.body:
                if isinstance(inner, Break):
                    raise KernelError("T.loop_break cannot leave this loop", inner.loc)
        for nested in children(stmt):
            _breaks(nested, inside or is_loop)


def _rows_independent(func: PrimFunc) -> None:
    """The device gives each vector core half of the rows, so no result may need all of them."""
    for stmt in walk(func.body):
        if isinstance(stmt, TileOp) and stmt.op == "reduce" and stmt.attrs["axis"] == 0:
            raise KernelError(
                "a reduction over rows in a kernel with threads=2: the device splits the rows "
                "between two vector cores, so the result would be only half; use "
                "T.Kernel(..., is_npu=True) as (cid, vid)",
                stmt.loc,
            )
