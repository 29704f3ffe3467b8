"""Statements in C++."""

from __future__ import annotations

import re

from ..errors import KernelError
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
    Stmt,
    Store,
    TileOp,
    While,
)
from .copy import emit_copy
from .literals import quoted
from .parallel import can_split, emit_split
from .tile import emit_tile
from .writer import Writer

_SPEC = re.compile(r"%(?:%|[-+ #0]*[0-9]*(?:\.[0-9]+)?(?:hh|h|ll|l|z)?([a-zA-Z]))")


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
        with self.braces("for (;;)"):
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

    def emit_Printf(self, stmt: Printf) -> None:
        text, args = _print_format(stmt, self)
        self.settle()
        self.line(f"printf({', '.join([quoted(text), *args])});")
        self.line("fflush(stdout);")


def _print_format(stmt: Printf, out: Writer) -> tuple[str, list[str]]:
    """C's format with every integer and float argument widened, so that lengths always agree."""
    args = list(stmt.args)
    texts: list[str] = []

    def convert(match: re.Match[str]) -> str:
        kind = match.group(1)
        if kind is None:
            return match.group(0)
        if not args:
            raise KernelError("T.printf: more conversions than arguments", stmt.loc)
        arg = args.pop(0)
        if isinstance(arg, str) != (kind == "s"):
            raise KernelError(f"T.printf: %{kind} does not fit its argument", stmt.loc)
        texts.append(quoted(arg) if isinstance(arg, str) else _print_value(arg, kind, out, stmt))
        plain = re.sub(r"(hh|h|ll|l|z)(?=[a-zA-Z]$)", "", match.group(0))
        if kind in "dioux" or kind == "X":
            return plain[:-1] + "ll" + kind
        return "0x%llx" if kind == "p" else plain

    text = _SPEC.sub(convert, stmt.text)
    if args:
        raise KernelError("T.printf: more arguments than conversions", stmt.loc)
    return text, texts


def _print_value(arg: Expr, kind: str, out: Writer, stmt: Printf) -> str:
    is_float_spec = kind in "feEgGaF"
    if kind not in "dioxXucp" and not is_float_spec:
        raise KernelError(f"T.printf: unknown conversion %{kind}", stmt.loc)
    if is_float_spec != arg.dtype.is_float:
        raise KernelError(f"T.printf: %{kind} does not fit a {arg.dtype}", stmt.loc)
    if is_float_spec:
        return f"static_cast<double>({out.value(arg)})"
    target = "int" if kind == "c" else "long long" if kind in "di" else "unsigned long long"
    inner = out.value(arg)
    if kind not in "dic" and arg.dtype.kind == "i":
        inner = f"static_cast<u{arg.dtype.cpp}>({inner})"
    return f"static_cast<{target}>({inner})"
