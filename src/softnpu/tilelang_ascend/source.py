"""From a Python function to the syntax tree and the names its body can see."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from .builder import MARK
from .errors import KernelError, Loc


@dataclass
class Source:
    """A function's syntax tree, with lines and columns as in its file."""

    node: ast.FunctionDef
    file: str
    text: str

    def loc(self, node: ast.AST) -> Loc:
        line = getattr(node, "lineno", self.node.lineno)
        return Loc(self.file, line, getattr(node, "col_offset", 0) + 1)


def read(func: Callable[..., Any]) -> Source:
    """The source of `func`.

    Raises KernelError if it cannot be had, as for functions typed into an interactive session.
    """
    file = inspect.getsourcefile(func) or func.__code__.co_filename
    try:
        lines, first = inspect.getsourcelines(func)
    except (OSError, TypeError):
        raise KernelError(
            f"the source of {func.__name__} cannot be read; kernels must be defined in a file"
        ) from None
    text = "".join(lines)
    dedented = textwrap.dedent(text)
    tree = ast.parse(dedented)
    indent = len(lines[0]) - len(lines[0].lstrip())
    ast.increment_lineno(tree, max(first, 1) - 1)
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt, ast.arg, ast.keyword)):
            node.col_offset += indent
            node.end_col_offset = (node.end_col_offset or 0) + indent
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise KernelError(f"{func.__name__} must be defined with 'def'", Loc(file, first, 1))
    return Source(node, file, text)


def visible_names(func: Callable[..., Any]) -> dict[str, Any]:
    """The globals and captured variables of `func`, as they are now."""
    names = dict(func.__globals__)
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # assigned later, or a name that only the annotation helpers use
            continue
    names[MARK] = True
    names.setdefault("__builtins__", builtins)
    return names


class _DeviceLogic(ast.NodeTransformer):
    """Makes `and`, `or`, `not`, chained comparison and `x if c else y` work on device values."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name = "__softnpu_and__" if isinstance(node.op, ast.And) else "__softnpu_or__"
        return _call(node, name, [_thunk(self.visit(value)) for value in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return _call(node, "__softnpu_not__", [node.operand])
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        sides = [_thunk(self.visit(node.body)), _thunk(self.visit(node.orelse))]
        return _call(node, "__softnpu_if__", [self.visit(node.test), *sides])

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        sides = [node.left, *node.comparators]
        pairs = [
            ast.copy_location(ast.Compare(sides[i], [op], [sides[i + 1]]), node)
            for i, op in enumerate(node.ops)
        ]
        return _call(node, "__softnpu_and__", [_thunk(pair) for pair in pairs])


def _call(node: ast.AST, name: str, args: list[ast.expr]) -> ast.Call:
    func = ast.copy_location(ast.Name(name, ast.Load()), node)
    return ast.copy_location(ast.Call(func, args, []), node)


def _thunk(body: ast.expr) -> ast.expr:
    empty = ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    return ast.copy_location(ast.Lambda(empty, body), body)


def compile_expr(node: ast.expr, file: str) -> CodeType:
    """`node` as code that evaluates it, with the file's own lines and columns."""
    tree = ast.Expression(_DeviceLogic().visit(node))
    return compile(ast.fix_missing_locations(tree), file, "eval")
