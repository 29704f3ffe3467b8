"""When each tile of the unified buffer is live, in ticks of a clock that counts statements.

A tile that is used in a loop, but allocated outside of it, lives through the whole loop unless
every iteration first overwrites all of it: then nothing is carried from one to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .affine import constant
from .intrinsics import TABLE
from .ir import Alloc, Break, Buffer, Copy, For, If, Region, Stmt, TileOp, While, children
from .regions import count
from .walk import buffers, walk

# Instructions that leave a part of their destination as it was.
_PARTIAL = {"gather_pattern", "gather_index", "sort", "merge_sort", "compare"}


@dataclass
class Live:
    """The first and last tick at which a tile holds something that is still needed."""

    buffer: Buffer
    first: int
    last: int


@dataclass(frozen=True)
class _Loop:
    begin: int
    certain: bool  # runs at least once, whenever it is reached


@dataclass
class _Use:
    buffer: Buffer
    time: int
    loops: tuple[_Loop, ...]
    # How many of `loops`, from the innermost, are overwritten by this use in every iteration.
    fresh_in: int


@dataclass
class _Scan:
    ends: dict[int, int] = field(default_factory=dict)
    uses: list[_Use] = field(default_factory=list)
    allocs: dict[Buffer, tuple[int, tuple[_Loop, ...]]] = field(default_factory=dict)
    clock: int = 0

    def visit(self, body: list[Stmt], loops: tuple[_Loop, ...], sure: int) -> None:
        """`sure`: how many of `loops`, from the innermost, reach this body in every iteration."""
        for stmt in body:
            self.clock += 1
            here = self.clock
            if isinstance(stmt, Alloc):
                self.allocs[stmt.buffer] = (here, loops)
            inner, inner_sure = loops, 0 if isinstance(stmt, If) else sure
            if isinstance(stmt, (For, While)):
                loop = _Loop(here, _runs(stmt))
                inner, inner_sure = (*loops, loop), (sure + 1 if loop.certain else 1)
                if any(isinstance(nested, Break) for nested in walk(stmt.body)):
                    inner_sure = 0  # an iteration may end before it has overwritten anything
            written = overwritten(stmt)
            for buffer in buffers(stmt):
                fresh = sure if written is not None and buffer is written else 0
                self.uses.append(_Use(buffer.root, here, inner, fresh))
            for nested in children(stmt):
                self.visit(nested, inner, inner_sure)
            self.ends[here] = self.clock


def _runs(stmt: For | While) -> bool:
    if isinstance(stmt, While):
        return False
    trips = [(constant(a), constant(b)) for a, b in zip(stmt.starts, stmt.stops, strict=True)]
    return all(a is not None and b is not None and a < b for a, b in trips)


def overwritten(stmt: Stmt) -> Buffer | None:
    """The tile that `stmt` replaces entirely, without reading it."""
    if not isinstance(stmt, (Copy, TileOp)) or stmt.dst.buffer.alias_of is not None:
        return None
    target = stmt.dst.buffer
    if target.scope != "ub" or not _is_all(stmt.dst):
        return None
    if isinstance(stmt, TileOp) and not _writes_all(stmt):
        return None
    touched = [buffer.root for buffer in buffers(stmt)]
    return target if touched.count(target) == 1 else None


def _is_all(region: Region) -> bool:
    shape = region.buffer.shape
    return region.whole or all(
        constant(extent) == constant(dim) for extent, dim in zip(region.extents, shape, strict=True)
    )


def _writes_all(op: TileOp) -> bool:
    row = TABLE.get(op.op)
    if op.op in _PARTIAL or row is not None and row.expr.startswith("d "):
        return False
    if op.op == "reduce":
        same_rows = constant(op.attrs["rows"]) == constant(op.attrs["all_rows"])
        same_cols = constant(op.attrs["cols"]) == constant(op.attrs["stride"])
        return bool(op.attrs["clear"]) and same_rows and same_cols
    limit = op.attrs.get("count")
    return limit is None or constant(limit) == constant(count(op.dst))


def live_ranges(body: list[Stmt]) -> list[Live]:
    """The range of every tile, in the order of allocation."""
    scan = _Scan()
    scan.visit(body, (), 0)
    by_buffer: dict[Buffer, list[_Use]] = {buffer: [] for buffer in scan.allocs}
    for use in scan.uses:
        if use.buffer in by_buffer:
            by_buffer[use.buffer].append(use)
    return [_range(scan, buffer, uses) for buffer, uses in by_buffer.items()]


def _range(scan: _Scan, buffer: Buffer, uses: list[_Use]) -> Live:
    time, around = scan.allocs[buffer]
    if not uses:
        return Live(buffer, time, time)
    first, last = min(use.time for use in uses), max(use.time for use in uses)
    loops = {loop: None for use in uses for loop in use.loops if loop not in around}
    for loop in loops:
        inside = [use for use in uses if loop in use.loops]
        earliest = min(inside, key=lambda use: use.time)
        depth = len(earliest.loops) - earliest.loops.index(loop)
        if earliest.fresh_in < depth:
            first, last = min(first, loop.begin), max(last, scan.ends[loop.begin])
    return Live(buffer, first, last)
