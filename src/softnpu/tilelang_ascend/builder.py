"""What the language functions talk to while a kernel is traced: statements, scopes, places."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, TracebackType
from typing import Any

from .errors import KernelError, Loc
from .ir import Buffer, Let, Printf, Stmt, Var

# A frame that runs an expression of a kernel's source has this name among its globals.
MARK = "__softnpu_kernel__"


@dataclass
class KernelHead:
    """What `T.Kernel(...)` said."""

    grid: object
    cid: Var
    vid: Var
    threads: int | None


@dataclass
class Builder:
    """The state of one trace."""

    name: str
    loc: Loc
    body: list[Stmt] = field(default_factory=list)
    head: KernelHead | None = None
    scope: str | None = None
    views: dict[Buffer, Buffer] = field(default_factory=dict)
    unnamed: set[Buffer] = field(default_factory=set)
    branches: list[Any] = field(default_factory=list)  # the T.If blocks that are open

    def emit(self, stmt: Stmt) -> None:
        if self.head is None and not isinstance(stmt, (Let, Printf)):
            raise KernelError("this needs to be inside 'with T.Kernel(...)'", stmt.loc)
        self.body.append(stmt)

    def view(self, buffer: Buffer) -> Buffer:
        """`buffer`, or what the last `T.reinterpretcast` in scope made of it."""
        while buffer in self.views:
            buffer = self.views[buffer]
        return buffer

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Collects the statements of a nested block; views made inside end with it."""
        outer, views = self.body, dict(self.views)
        self.body = []
        try:
            yield self.body
        finally:
            self.body, self.views = outer, views


_state = threading.local()


def current() -> Builder:
    """The trace that is running in this thread.

    Raises KernelError outside a kernel.
    """
    found: Builder | None = getattr(_state, "builder", None)
    if found is None:
        raise KernelError("this can only be used inside a function decorated with @T.prim_func")
    return found


def tracing() -> bool:
    return getattr(_state, "builder", None) is not None


@contextmanager
def trace(builder: Builder) -> Iterator[Builder]:
    previous = getattr(_state, "builder", None)
    _state.builder = builder
    try:
        yield builder
    finally:
        _state.builder = previous


@contextmanager
def at(loc: Loc) -> Iterator[None]:
    """Sets the place of statements that no expression of the source emits (loops, lets)."""
    previous = getattr(_state, "loc", None)
    _state.loc = loc
    try:
        yield
    finally:
        _state.loc = previous


def here() -> Loc | None:
    """The place in the kernel's source that is being evaluated."""
    if not tracing():
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if MARK in frame.f_globals:
            return _place(frame.f_code, frame.f_lasti)
        if frame.f_code.co_name == "_visit_statement":
            break
        frame = frame.f_back
    return getattr(_state, "loc", None)


def place() -> Loc:
    """As `here`, falling back to the kernel itself."""
    return here() or current().loc


def _place(code: CodeType, instruction: int) -> Loc:
    positions = list(code.co_positions())
    line, _, col, _ = positions[instruction // 2]
    return Loc(code.co_filename, line or code.co_firstlineno, (col or 0) + 1)


def raised_at(trace: TracebackType | None) -> Loc | None:
    """The place in a kernel's source that an exception with this traceback came through last."""
    found: Loc | None = None
    while trace is not None:
        if MARK in trace.tb_frame.f_globals:
            found = _place(trace.tb_frame.f_code, trace.tb_lasti)
        trace = trace.tb_next
    return found
