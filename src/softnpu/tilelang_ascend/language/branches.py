"""`T.If`, `T.Then` and `T.Else`: branches written as nested `with` blocks."""

from __future__ import annotations

from typing import Any

from ..arith import truth
from ..builder import Builder
from ..errors import KernelError, Loc
from ..ir import If as IfStmt
from ..ir import Stmt


class If:
    """`with T.If(cond):`, whose body is one `with T.Then():` and at most one `with T.Else():`."""

    nested = True

    def __init__(self, cond: Any) -> None:
        self.cond = truth(cond)
        self.sides: dict[str, list[Stmt]] = {}

    def enter_kernel(self, build: Builder) -> None:
        build.branches.append(self)

    def leave_kernel(self, build: Builder, loc: Loc, body: list[Stmt] | None) -> None:
        build.branches.pop()
        if body or "Then" not in self.sides:
            raise KernelError("the body of T.If is one T.Then and at most one T.Else", loc)
        build.emit(IfStmt(loc, self.cond, self.sides["Then"], self.sides.get("Else", [])))


class Then:
    """The statements for a condition that holds."""

    nested = True

    def enter_kernel(self, build: Builder) -> None:
        name = type(self).__name__
        if not build.branches or name in build.branches[-1].sides:
            raise KernelError(f"T.{name} belongs inside a T.If, once")
        build.branches[-1].sides[name] = []

    def leave_kernel(self, build: Builder, loc: Loc, body: list[Stmt] | None) -> None:
        build.branches[-1].sides[type(self).__name__] = body or []


class Else(Then):
    """The statements for a condition that does not hold."""
