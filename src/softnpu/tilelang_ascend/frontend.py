"""Runs the body of a kernel once, statement by statement, and leaves its IR in the builder.

Python values are constants of the trace: a test on them is decided here, a loop over
`T.serial` is not unrolled. Expressions are evaluated by Python itself with the kernel's names.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import arith, builder, loops
from .errors import KernelError, Loc
from .ir import (
    Assert,
    AssignVar,
    Buffer,
    Const,
    Expr,
    If,
    Let,
    LocalVar,
    Region,
    Stmt,
    Store,
    Var,
    While,
)
from .regions import as_load
from .source import Source, compile_expr

_MISSING = object()


class Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Frontend:
    """Visits one function's body. `names` is what the body can see; it is changed by the visit."""

    def __init__(self, source: Source, names: dict[str, Any], is_macro: bool = False) -> None:
        self.source = source
        self.names = names
        self.is_macro = is_macro
        self.undo: list[dict[str, Any]] = []
        names.update(
            __softnpu_and__=_all_of, __softnpu_or__=_any_of, __softnpu_not__=_negate,
            __softnpu_if__=_choose,
        )  # fmt: skip

    def run(self) -> None:
        self.visit_body(self.source.node.body)

    def visit_body(self, body: list[ast.stmt]) -> None:
        for node in body:
            self._visit_statement(node)

    def _visit_statement(self, node: ast.stmt) -> None:
        loc = self.source.loc(node)
        visit = getattr(self, f"visit_{type(node).__name__}", None)
        with builder.at(loc), placed(loc):
            if visit is None:
                raise self.refusal(node)
            visit(node)

    def refusal(self, node: ast.AST) -> KernelError:
        name = type(node).__name__
        hint = " (use T.loop_break)" if name == "Break" else ""
        return KernelError(f"Python's {name} statement is not part of the kernel language{hint}")

    # -- names and expressions ---------------------------------------------------------------

    def eval(self, node: ast.expr) -> Any:
        """The value of a Python expression of the kernel."""
        with placed(self.source.loc(node)):
            return eval(compile_expr(node, self.source.file), self.names)

    def bind(self, name: str, value: Any) -> None:
        if self.undo:
            self.undo[-1].setdefault(name, self.names.get(name, _MISSING))
        self.names[name] = value

    @contextmanager
    def scope(self) -> Iterator[list[Stmt]]:
        """A nested block: names bound inside end with it."""
        self.undo.append({})
        try:
            with builder.current().block() as statements:
                yield statements
        finally:
            for name, value in self.undo.pop().items():
                if value is _MISSING:
                    del self.names[name]
                else:
                    self.names[name] = value

    # -- simple statements -------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.eval(node.value)

    def visit_Pass(self, node: ast.Pass) -> None:
        pass

    def visit_Return(self, node: ast.Return) -> None:
        if not self.is_macro or self.undo:
            raise self.refusal(node)
        raise Return(None if node.value is None else self.eval(node.value))

    def visit_Assert(self, node: ast.Assert) -> None:
        cond = self.eval(node.test)
        message = str(self.eval(node.msg)) if node.msg is not None else "assertion failed"
        if isinstance(cond, Expr) and not isinstance(cond, Const):
            builder.current().emit(Assert(builder.place(), arith.truth(cond), message))
        elif not (cond.value if isinstance(cond, Const) else cond):
            raise KernelError(message)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        from .macro import nested_macro

        self.bind(node.name, nested_macro(node, self))

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        fresh = isinstance(node.value, ast.Call) and isinstance(value, LocalVar)
        for target in node.targets:
            if fresh and isinstance(target, ast.Name):
                self.bind(target.id, value)
            else:
                self.assign(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise KernelError("a declaration needs a value")
        value, kind = self.eval(node.value), self.eval(node.annotation)
        dtype = getattr(kind, "dtype", None)
        self.assign(node.target, value if dtype is None else arith.cast(value, dtype))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        load = ast.parse(ast.unparse(node.target), mode="eval").body
        for part in ast.walk(load):
            ast.copy_location(part, node.target)
        combined = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        self.assign(node.target, self.eval(ast.fix_missing_locations(combined)))

    def assign(self, target: ast.expr, value: Any) -> None:
        """Binds a name, sets a mutable variable, or stores to an element."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for part, one in zip(target.elts, tuple(value), strict=True):
                self.assign(part, one)
        elif isinstance(target, ast.Subscript):
            self.store(target, value)
        elif isinstance(target, ast.Name):
            self.assign_name(target.id, value)
        else:
            raise KernelError("only names and buffer elements can be assigned to")

    def assign_name(self, name: str, value: Any) -> None:
        build = builder.current()
        old = self.names.get(name)
        if isinstance(old, LocalVar) and not isinstance(value, (LocalVar, Buffer, Region)):
            build.emit(AssignVar(builder.place(), old, arith.cast(value, old.dtype)))
        elif isinstance(value, Expr) and not isinstance(value, (Var, Const)):
            var = Var(name, value.dtype, None, value)
            build.emit(Let(builder.place(), var, value))
            self.bind(name, var)
        else:
            self.bind(name, value)
            if isinstance(value, Buffer) and value in build.unnamed:
                build.unnamed.discard(value)
                value.name = name

    def store(self, target: ast.Subscript, value: Any) -> None:
        buffer = self.eval(target.value)
        if not isinstance(buffer, Buffer):
            raise KernelError(f"cannot store to a {type(buffer).__name__}")
        index = self.eval(target.slice)
        element = buffer[index]
        load = as_load(element)
        if load is None:
            raise KernelError(
                f"only single elements can be assigned; use T.tile.fill or T.copy for "
                f"{buffer.name}[...]"
            )
        stored = arith.cast(value, buffer.dtype)
        builder.current().emit(Store(builder.place(), load.buffer, load.indices, stored))

    # -- control flow ------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> None:
        cond = self.eval(node.test)
        if isinstance(cond, Const):
            cond = cond.value
        if not isinstance(cond, Expr):
            self.visit_body(node.body if cond else node.orelse)
            return
        place = builder.place()
        with self.scope() as then:
            self.visit_body(node.body)
        with self.scope() as other:
            self.visit_body(node.orelse)
        builder.current().emit(If(place, arith.truth(cond), then, other))

    def visit_While(self, node: ast.While) -> None:
        cond = self.eval(node.test)
        if not isinstance(cond, Expr) or isinstance(cond, Const):
            raise KernelError("the condition of 'while' must depend on device values")
        place = builder.place()
        with self.scope() as body:
            self.visit_body(node.body)
        builder.current().emit(While(place, arith.truth(cond), body))

    def visit_For(self, node: ast.For) -> None:
        if node.orelse:
            raise KernelError("'for ... else' is not part of the kernel language")
        space = self.loop_space(node.iter)
        place = builder.place()
        with self.scope() as body:
            indices = space.indices(target_names(node.target))
            values = list(indices)
            is_tuple = isinstance(node.target, (ast.Tuple, ast.List))
            self.bind_target(node.target, tuple(values) if is_tuple else values[0])
            self.visit_body(node.body)
        builder.current().emit(space.statement(place, indices, body))

    def loop_space(self, node: ast.expr) -> loops.LoopSpace:
        if isinstance(node, ast.Call) and self.eval(node.func) is builtins.range:
            return loops.from_range(*[self.eval(arg) for arg in node.args])
        space = self.eval(node)
        if not isinstance(space, loops.LoopSpace):
            raise KernelError(
                f"'for' needs range, T.serial, T.unroll, T.Parallel or another loop of the "
                f"language, got {type(space).__name__}"
            )
        return space

    def bind_target(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part, one in zip(target.elts, value, strict=True):
                self.bind_target(part, one)
        else:
            raise KernelError("only names can be bound here")

    def visit_With(self, node: ast.With) -> None:
        if len(node.items) > 1:
            raise KernelError("one 'with' item at a time")
        item = node.items[0]
        manager = self.eval(item.context_expr)
        enter: Callable[..., Any] | None = getattr(manager, "enter_kernel", None)
        if enter is None:
            raise KernelError(f"'with' on a {type(manager).__name__} is not part of the language")
        place = builder.place()
        value = enter(builder.current())
        if item.optional_vars is not None:
            names = item.optional_vars
            self.bind_target(names, value)
        if getattr(manager, "nested", False):
            with self.scope() as body:
                self.visit_body(node.body)
            manager.leave_kernel(builder.current(), place, body)
        else:
            self.visit_body(node.body)
            manager.leave_kernel(builder.current(), place, None)


def target_names(target: ast.expr) -> list[str]:
    """The names that a loop or 'with' target binds, in order."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for part in target.elts for name in target_names(part)]
    return []


@contextmanager
def placed(loc: Loc) -> Iterator[None]:
    """Turns anything raised inside into a `KernelError` at `loc` (or at its own place)."""
    try:
        yield
    except Return:
        raise
    except KernelError as error:
        raise error.at(builder.raised_at(error.__traceback__) or loc) from None
    except (NotImplementedError, AttributeError) as error:
        raise KernelError(str(error), builder.raised_at(error.__traceback__) or loc) from None
    except Exception as error:
        place = builder.raised_at(error.__traceback__) or loc
        raise KernelError(f"{type(error).__name__}: {error}", place) from None


def _all_of(*thunks: Callable[[], Any]) -> Any:
    return _logic("land", thunks, stop_at=False)


def _any_of(*thunks: Callable[[], Any]) -> Any:
    return _logic("lor", thunks, stop_at=True)


def _logic(op: str, thunks: tuple[Callable[[], Any], ...], stop_at: bool) -> Any:
    """Python's short circuit on Python values, a device expression as soon as one is involved."""
    result: Any = None
    for thunk in thunks:
        value = thunk()
        if isinstance(result, Expr):
            result = arith.binary(op, result, arith.truth(value))
        elif isinstance(value, Expr):
            result = arith.truth(value)
        else:
            result = value
            if bool(value) is stop_at:
                return value
    return result


def _negate(value: Any) -> Any:
    return arith.unary("lnot", arith.truth(value)) if isinstance(value, Expr) else not value


def _choose(cond: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
    if isinstance(cond, Expr):
        return arith.select(cond, then(), other())
    return then() if cond else other()
