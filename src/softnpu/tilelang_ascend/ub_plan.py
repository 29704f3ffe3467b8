"""Gives every tile its place in the unified buffer.

Without memory planning, tiles lie one after the other. With it, a place is used again once the
tile there is dead: first fit over live ranges, where a tile used in a loop that it was allocated
outside of lives through the whole loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .affine import constant
from .errors import KernelError
from .ir import Alloc, Buffer, For, PrimFunc, Stmt, While, children
from .regions import shape_text
from .walk import buffers

UB_BYTES = 196608  # of one vector core (Ascend 910B and 910_93)
PLANNED_UB_BYTES = 196352  # what upstream's memory planning gives out: it keeps 256 for itself
ALIGN = 32


@dataclass
class Plan:
    """Byte offsets of the tiles (by root buffer), and the bytes used."""

    offsets: dict[Buffer, int]
    total: int


@dataclass
class _Live:
    buffer: Buffer
    bytes: int
    first: int
    last: int
    loops: tuple[int, ...]  # the loops around the allocation


@dataclass
class _Scan:
    """One walk in program order, noting each tile's first and last use."""

    live: dict[Buffer, _Live] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    uses: list[tuple[Buffer, int, tuple[int, ...]]] = field(default_factory=list)
    clock: int = 0

    def visit(self, body: list[Stmt], loops: tuple[int, ...]) -> None:
        for stmt in body:
            self.clock += 1
            if isinstance(stmt, Alloc):
                size = tile_bytes(stmt.buffer)
                self.live[stmt.buffer] = _Live(stmt.buffer, size, self.clock, self.clock, loops)
            here = self.clock
            inner = (*loops, here) if isinstance(stmt, (For, While)) else loops
            for buffer in buffers(stmt):
                self.uses.append((buffer.root, here, inner))
            for nested in children(stmt):
                self.visit(nested, inner)
            self.ends[here] = self.clock

    def close(self) -> list[_Live]:
        for buffer, time, loops in self.uses:
            found = self.live.get(buffer)
            if found is None:
                continue
            outer = [loop for loop in loops if loop not in found.loops]
            found.last = max(found.last, self.ends[outer[0]] if outer else time)
        return list(self.live.values())


def tile_bytes(buffer: Buffer) -> int:
    total = buffer.dtype.bytes
    for dim in buffer.shape:
        total *= constant(dim) or 0
    return -(-total // ALIGN) * ALIGN


def plan(func: PrimFunc, reuse: bool) -> Plan:
    """Places all tiles of `func`.

    Raises KernelError, at the allocation that does not fit, if the unified buffer is too small.
    """
    scan = _Scan()
    scan.visit(func.body, ())
    tiles = scan.close()
    # Without a `vid`, the body describes the work of both vector cores, each with its own buffer.
    capacity = (PLANNED_UB_BYTES if reuse else UB_BYTES) * (2 if func.threads == 2 else 1)
    offsets: dict[Buffer, int] = {}
    placed: list[_Live] = []
    for tile in sorted(tiles, key=lambda t: t.buffer.manual_offset is None):
        offset = tile.buffer.manual_offset
        if offset is None:
            offset = _first_fit(tile, placed, offsets, reuse)
        if offset + tile.bytes > capacity:
            raise KernelError(_overflow(tile, offset, capacity, tiles, reuse), tile.buffer.loc)
        offsets[tile.buffer] = offset
        placed.append(tile)
    total = max((offsets[t.buffer] + t.bytes for t in tiles), default=0)
    return Plan(offsets, total)


def _first_fit(tile: _Live, placed: list[_Live], offsets: dict[Buffer, int], reuse: bool) -> int:
    blocks = sorted(
        (offsets[other.buffer], offsets[other.buffer] + other.bytes)
        for other in placed
        if not reuse or (other.first <= tile.last and tile.first <= other.last)
    )
    start = 0
    for low, high in blocks:
        if low - start >= tile.bytes:
            return start
        start = max(start, high)
    return start


def _overflow(tile: _Live, offset: int, capacity: int, tiles: list[_Live], reuse: bool) -> str:
    buffer = tile.buffer
    total = sum(other.bytes for other in tiles)
    hint = (
        "use smaller tiles"
        if reuse
        else ("use smaller tiles, or let TL_ASCEND_MEMORY_PLANNING reuse the place of dead ones")
    )
    return (
        f"unified buffer overflow: {buffer.name}{shape_text(buffer)} of {buffer.dtype} needs "
        f"{tile.bytes} bytes at offset {offset}, the buffer has {capacity} (all tiles together: "
        f"{total} bytes); {hint}"
    )
