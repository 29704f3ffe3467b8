"""Which buffers a statement touches, and walks over statements."""

from __future__ import annotations

from collections.abc import Iterator

from .affine import operands
from .ir import (
    Alias,
    Assert,
    AssignVar,
    Buffer,
    Copy,
    DeclareVar,
    Expr,
    For,
    If,
    Let,
    Load,
    Printf,
    Region,
    SetDeqScale,
    Stmt,
    Store,
    TileOp,
    While,
    children,
)


def expressions(stmt: Stmt) -> Iterator[Expr]:
    """The expressions that `stmt` itself evaluates (not those of nested statements)."""
    if isinstance(stmt, (Let, AssignVar, SetDeqScale)):
        yield stmt.value
    elif isinstance(stmt, DeclareVar):
        yield stmt.init
    elif isinstance(stmt, Store):
        yield from (*stmt.indices, stmt.value)
    elif isinstance(stmt, For):
        yield from (*stmt.starts, *stmt.stops)
    elif isinstance(stmt, (While, If, Assert)):
        yield stmt.cond
    elif isinstance(stmt, Printf):
        yield from (arg for arg in stmt.args if isinstance(arg, Expr))
    elif isinstance(stmt, (Copy, TileOp)):
        yield from _operand_expressions(stmt)


def _operand_expressions(stmt: Copy | TileOp) -> Iterator[Expr]:
    for region in regions(stmt):
        yield from region.mins
        yield from (extent for extent in region.extents if isinstance(extent, Expr))
    if isinstance(stmt, Copy):
        yield stmt.pad
        return
    yield from (src for src in stmt.srcs if isinstance(src, Expr))
    yield from (value for value in stmt.attrs.values() if isinstance(value, Expr))


def regions(stmt: Stmt) -> Iterator[Region]:
    """The regions that `stmt` reads or writes as a whole."""
    if isinstance(stmt, Copy):
        yield from (stmt.src, stmt.dst)
    elif isinstance(stmt, TileOp):
        yield stmt.dst
        yield from (src for src in stmt.srcs if isinstance(src, Region))


def loads(expr: Expr) -> Iterator[Load]:
    """Every element access in `expr`."""
    if isinstance(expr, Load):
        yield expr
    for part in operands(expr):
        yield from loads(part)


def buffers(stmt: Stmt) -> Iterator[Buffer]:
    """The buffers that `stmt` itself touches."""
    yield from (region.buffer for region in regions(stmt))
    for expr in expressions(stmt):
        yield from (load.buffer for load in loads(expr))
    if isinstance(stmt, Store):
        yield stmt.buffer
    elif isinstance(stmt, Alias):
        yield from (stmt.dst, stmt.src)


def walk(body: list[Stmt]) -> Iterator[Stmt]:
    """Every statement, outer before inner, in program order."""
    for stmt in body:
        yield stmt
        for inner in children(stmt):
            yield from walk(inner)
