"""Synchronisation inside one core and debugging output.

The emulated core executes in program order, so flags and barriers have nothing left to do. Their
arguments are checked, because a wrong one hangs the real device.
"""

from __future__ import annotations

from typing import Any

from .. import builder
from ..arith import as_expr
from ..errors import KernelError
from ..ir import Buffer, Const, Expr, Printf
from ..printf_format import conversions

PIPES = ("fix", "mte1", "mte2", "mte3", "m", "v", "s")
EVENTS = 8


def _pipe(name: str, value: Any) -> None:
    if not isinstance(value, str) or value.lower() not in PIPES:
        raise KernelError(f"{name}: a pipe is one of {', '.join(PIPES)}, got {value!r}")


def _flag(name: str, src: Any, dst: Any, event: Any) -> None:
    _pipe(name, src)
    _pipe(name, dst)
    if src.lower() == dst.lower():
        raise KernelError(f"{name}: {src} cannot wait for itself; use T.pipe_barrier")
    expr = as_expr(event)
    if isinstance(expr, Const) and not 0 <= expr.value < EVENTS:
        raise KernelError(f"{name}: the event id is 0 to {EVENTS - 1}, got {expr.value}")


def set_flag(src: str, dst: str, eventId: Any) -> None:
    """Lets pipe `dst` go on once pipe `src` has come here. Without effect: cores run in order."""
    _flag("T.set_flag", src, dst, eventId)


def wait_flag(src: str, dst: str, eventId: Any) -> None:
    """Pipe `dst` waits for the matching `set_flag`. Without effect: cores run in order."""
    _flag("T.wait_flag", src, dst, eventId)


def barrier_all() -> None:
    """All pipes of the core wait for each other. Without effect: cores run in order."""
    builder.current()


def pipe_barrier(pipe: str) -> None:
    """Pipe `pipe` ("all" for every one) finishes what it has begun. Without effect."""
    if isinstance(pipe, str) and pipe.lower() == "all":
        return
    _pipe("T.pipe_barrier", pipe)


def printf(format_str: str, *args: Any) -> None:
    """C's printf on the host's standard output, once per core that comes here."""
    if not isinstance(format_str, str):
        raise KernelError("T.printf: the format must be a string")
    values: list[Expr | str] = []
    for arg in args:
        if isinstance(arg, Buffer):
            raise KernelError(f"T.printf: {arg.name} has no printable address here; "
                              "print its elements")  # fmt: skip
        values.append(arg if isinstance(arg, str) else as_expr(arg))
    conversions(format_str, values)
    builder.current().emit(Printf(builder.place(), format_str, tuple(values)))
