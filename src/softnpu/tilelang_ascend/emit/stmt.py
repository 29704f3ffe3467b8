"""Statements in C++."""

from __future__ import annotations

from ..ir import (
    Alias,
    Alloc,
    Assert,
    AssignVar,
    Break,
    Copy,
    DeclareVar,
    Expr,
    For,
    If,
    Let,
    Load,
    Printf,
    SetDeqScale,
    Stmt,
    Store,
    TileOp,
    While,
)
from ..printf_format import conversions
from .copy import emit_copy
from .literals import quoted
from .parallel import can_split, emit_split
from .tile import emit_tile
from .writer import Writer


class BodyEmitter(Writer):
    """Writes the statements of a kernel."""

    def body(self, statements: list[Stmt]) -> None:
        for stmt in statements:
            getattr(self, f"emit_{type(stmt).__name__}")(stmt)

    def emit_Alloc(self, stmt: Alloc) -> None:
        """Tiles are declared at the top of the kernel."""

    def emit_Alias(self, stmt: Alias) -> None:
        name = self.names.of("b_", stmt.dst)
        cpp = stmt.dst.dtype.cpp
        source = self.names.of("b_", stmt.src)
        self.line(f"[[maybe_unused]] {cpp}* const {name} = reinterpret_cast<{cpp}*>({source});")

    def emit_Let(self, stmt: Let) -> None:
        name, value = self.names.of("v_", stmt.var), self.value(stmt.value)
        self.line(f"[[maybe_unused]] const {stmt.var.dtype.value} {name} = {value};")
        self.settle()

    def emit_DeclareVar(self, stmt: DeclareVar) -> None:
        name, value = self.names.of("m_", stmt.var), self.value(stmt.init)
        self.line(f"[[maybe_unused]] {stmt.var.dtype.value} {name} = {value};")
        self.settle()

    def emit_AssignVar(self, stmt: AssignVar) -> None:
        self.line(f"{self.names.of('m_', stmt.var)} = {self.value(stmt.value)};")
        self.settle()

    def emit_Store(self, stmt: Store) -> None:
        text, self.can_fail = self.store_text(stmt, Load(stmt.buffer, stmt.indices, stmt.loc))
        self.line(text)
        self.settle()

    def emit_For(self, stmt: For) -> None:
        self.loop_vars.update(id(var) for var in stmt.indices)
        for bound in (*stmt.starts, *stmt.stops):
            self.index(bound)
        self.settle()
        if stmt.parallel and can_split(stmt):
            emit_split(self, stmt)
            return
        for var, start, stop in zip(stmt.indices, stmt.starts, stmt.stops, strict=True):
            name = self.names.of("v_", var)
            self.line(
                f"for (int64_t {name} = {self.index(start)}, end_{name} = {self.index(stop)}; "
                f"{name} < end_{name}; ++{name}) {{"
            )
            self.depth += 1
        self.settle()
        self.body(stmt.body)
        for _ in stmt.indices:
            self.depth -= 1
            self.line("}")

    def emit_While(self, stmt: While) -> None:
        with self.braces("for (int64_t rounds = 0;; ++rounds)"):
            self.require(f"task.goes_on(rounds, {self.places.of(stmt.loc)})")
            self.line(f"const bool go_on = {self.value(stmt.cond)};")
            self.settle()
            self.line("if (!go_on) break;")
            self.body(stmt.body)

    def emit_Break(self, stmt: Break) -> None:
        self.line("break;")

    def emit_If(self, stmt: If) -> None:
        with self.braces():
            self.line(f"const bool holds = {self.value(stmt.cond)};")
            self.settle()
            with self.braces("if (holds)"):
                self.body(stmt.then)
            if stmt.other:
                with self.braces("else"):
                    self.body(stmt.other)

    def emit_Assert(self, stmt: Assert) -> None:
        place = self.places.of(stmt.loc)
        cond = self.value(stmt.cond)
        self.settle()
        fail = f'task.fail(SN_FAULT_OTHER, 0, {place}, "%s", {quoted(stmt.message)})'
        self.require(f"({cond} || {fail})")

    def emit_Copy(self, stmt: Copy) -> None:
        emit_copy(self, stmt)

    def emit_TileOp(self, stmt: TileOp) -> None:
        emit_tile(self, stmt)

    def emit_SetDeqScale(self, stmt: SetDeqScale) -> None:
        self.line(f"task.deq_scale = {self.value(stmt.value)};")
        self.settle()

    def emit_Printf(self, stmt: Printf) -> None:
        text, kinds = conversions(stmt.text, stmt.args)
        args = [_printed(self, arg, kind) for arg, kind in zip(stmt.args, kinds, strict=True)]
        self.settle()
        self.line(f"printf({', '.join([quoted(text), *args])});")
        self.line("fflush(stdout);")


def _printed(out: Writer, arg: Expr | str, kind: str) -> str:
    """An argument of printf, widened to what its conversion takes."""
    if isinstance(arg, str):
        return quoted(arg)
    value = out.value(arg)
    if arg.dtype.is_float:
        return f"static_cast<double>({value})"
    if kind in "dic":
        return f"static_cast<{'int' if kind == 'c' else 'long long'}>({value})"
    if arg.dtype.kind == "i":  # %x of a negative int32 has eight digits
        value = f"static_cast<u{arg.dtype.cpp}>({value})"
    return f"static_cast<unsigned long long>({value})"
