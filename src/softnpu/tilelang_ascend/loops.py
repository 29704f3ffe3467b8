"""Iteration spaces that a kernel's `for` accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .affine import span
from .arith import as_expr, unify
from .errors import KernelError, Loc
from .ir import Expr, For, Stmt, Var


@dataclass
class LoopSpace:
    """A box of indices: `starts[i] <= index_i < stops[i]`."""

    starts: tuple[Expr, ...]
    stops: tuple[Expr, ...]
    parallel: bool = False

    def indices(self, names: Sequence[str]) -> tuple[Var, ...]:
        """Fresh loop variables called `names`.

        Raises KernelError if their number is not the loop's.
        """
        if len(names) != len(self.starts):
            raise KernelError(f"this loop has {len(self.starts)} indices, got {len(names)} names")
        return tuple(
            Var(name, low.dtype, _index_span(low, high))
            for name, low, high in zip(names, self.starts, self.stops, strict=True)
        )

    def statement(self, loc: Loc, indices: tuple[Var, ...], body: list[Stmt]) -> Stmt:
        return For(loc, indices, self.starts, self.stops, body, self.parallel)


def _index_span(low: Expr, high: Expr) -> tuple[int, int] | None:
    first, last = span(low), span(high)
    if first is None or last is None:
        return None
    return first[0], max(last[1] - 1, first[0])


def box(extents: Sequence[Any], parallel: bool = False) -> LoopSpace:
    """Indices from 0 to each of `extents`."""
    pairs = [_pair(0, extent) for extent in extents]
    return LoopSpace(tuple(a for a, _ in pairs), tuple(b for _, b in pairs), parallel)


def between(start: Any, stop: Any | None) -> LoopSpace:
    """`start` to `stop`, or 0 to `start` if there is only one bound."""
    low, high = _pair(0, start) if stop is None else _pair(start, stop)
    return LoopSpace((low,), (high,))


def from_range(*args: Any) -> LoopSpace:
    """What Python's `range(...)` means in a kernel; only a step of 1 exists."""
    if not 1 <= len(args) <= 3:
        raise KernelError("range takes one, two or three arguments")
    if len(args) == 3 and args[2] != 1:
        raise KernelError("range with a step is not part of the kernel language")
    return between(args[0], args[1] if len(args) > 1 else None)


def _pair(low: Any, high: Any) -> tuple[Expr, Expr]:
    first, last = unify(as_expr(low) if isinstance(low, Expr) else low, high)
    if not first.dtype.is_int:
        raise KernelError(f"loop bounds must be integers, got {first.dtype}")
    return first, last
