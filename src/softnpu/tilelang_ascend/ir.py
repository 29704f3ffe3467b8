"""The typed IR between the Python front-end and the C++ emitter.

Expressions are immutable and carry a dtype; arithmetic on them (Python operators) is defined in
`arith.py`. Statements are plain records that passes read; the front-end is the only writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .dtypes import BOOL, DType
from .errors import Loc


class Expr:
    """A scalar value of the kernel. Operators are attached by `arith.py`."""

    dtype: DType
    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class Const(Expr):
    value: Any
    dtype: DType


@dataclass(frozen=True, eq=False)
class Var(Expr):
    """An immutable scalar: a loop or block index, a let binding, a symbolic dimension, a parameter.

    `span` is the inclusive range of its values where that is known when compiling.
    """

    name: str
    dtype: DType
    span: tuple[int, int] | None = None
    let: Expr | None = None


@dataclass(frozen=True, eq=False)
class LocalVar(Expr):
    """A mutable scalar of `T.alloc_var`."""

    name: str
    dtype: DType


@dataclass(frozen=True, eq=False)
class Unary(Expr):
    op: str
    a: Expr
    dtype: DType


@dataclass(frozen=True, eq=False)
class Binary(Expr):
    op: str
    a: Expr
    b: Expr
    dtype: DType
    loc: Loc | None = None


@dataclass(frozen=True, eq=False)
class Cast(Expr):
    a: Expr
    dtype: DType
    bits: bool = False  # reinterpret the bits instead of converting the value


@dataclass(frozen=True, eq=False)
class Select(Expr):
    """`a` if `cond` else `b`; only the chosen side is evaluated."""

    cond: Expr
    a: Expr
    b: Expr
    dtype: DType


@dataclass(frozen=True, eq=False)
class Load(Expr):
    buffer: Buffer
    indices: tuple[Expr, ...]
    loc: Loc | None = None

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.buffer.dtype


Dim = int | Expr


@dataclass(eq=False)
class Buffer:
    """A tensor in global memory (`scope` "gm", a parameter) or a tile in the unified buffer ("ub").

    `alias_of` is the tile whose bytes this one views since a `T.reinterpretcast`.
    """

    name: str
    shape: tuple[Dim, ...]
    dtype: DType
    scope: str
    loc: Loc | None = None
    alias_of: Buffer | None = None
    manual_offset: int | None = None

    __hash__ = object.__hash__

    def __getitem__(self, index: Any) -> Expr | Region:
        """An element if every index is a scalar, else a region."""
        from .regions import item

        return item(self, index)

    @property
    def root(self) -> Buffer:
        return self if self.alias_of is None else self.alias_of.root


@dataclass(eq=False)
class Region:
    """A box of a buffer. `whole` says that the user named the buffer itself, without indices."""

    buffer: Buffer
    mins: tuple[Expr, ...]
    extents: tuple[Dim, ...]
    loc: Loc | None = None
    whole: bool = False


Operand = Region | Expr


@dataclass
class Stmt:
    loc: Loc


@dataclass
class Let(Stmt):
    var: Var
    value: Expr


@dataclass
class DeclareVar(Stmt):
    var: LocalVar
    init: Expr


@dataclass
class AssignVar(Stmt):
    var: LocalVar
    value: Expr


@dataclass
class Store(Stmt):
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass
class Alloc(Stmt):
    buffer: Buffer


@dataclass
class Alias(Stmt):
    """From here on `dst` views the bytes of `src`; the emitter sees a new buffer object."""

    dst: Buffer
    src: Buffer


@dataclass
class For(Stmt):
    """`parallel`: the iterations are lanes of one vector statement after another."""

    indices: tuple[Var, ...]
    starts: tuple[Expr, ...]
    stops: tuple[Expr, ...]
    body: list[Stmt]
    parallel: bool = False


@dataclass
class While(Stmt):
    cond: Expr
    body: list[Stmt]


@dataclass
class Break(Stmt):
    pass


@dataclass
class If(Stmt):
    cond: Expr
    then: list[Stmt]
    other: list[Stmt]


@dataclass
class Assert(Stmt):
    cond: Expr
    message: str


@dataclass
class Copy(Stmt):
    src: Region
    dst: Region
    pad: Expr


@dataclass
class TileOp(Stmt):
    """A `T.tile.*` or reduce statement: `op` is a row of `intrinsics.TABLE` or a special form."""

    op: str
    dst: Region
    srcs: tuple[Operand, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class SetDeqScale(Stmt):
    """The factor of conversions from int32 to float16."""

    value: Expr


@dataclass
class Printf(Stmt):
    text: str
    args: tuple[Expr | str, ...]


@dataclass
class Param:
    """A kernel parameter: a tensor (`buffer`) or a scalar (`var`)."""

    name: str
    buffer: Buffer | None = None
    var: Var | None = None


@dataclass
class PrimFunc:
    """A traced kernel. `grid` counts the blocks and may depend on `symbols`."""

    name: str
    params: list[Param]
    symbols: list[Var]
    grid: Dim
    cid: Var
    vid: Var
    threads: int | None
    body: list[Stmt]
    loc: Loc
    script: str = ""


def const_true() -> Const:
    return Const(True, BOOL)


def children(stmt: Stmt) -> Sequence[list[Stmt]]:
    """The statement lists inside `stmt`."""
    if isinstance(stmt, (For, While)):
        return (stmt.body,)
    if isinstance(stmt, If):
        return (stmt.then, stmt.other)
    return ()
