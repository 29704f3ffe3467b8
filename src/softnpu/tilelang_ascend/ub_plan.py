"""Gives every tile its place in the unified buffer.

Without memory planning, tiles lie one after the other. With it, a place is used again once the
tile there is dead: first fit over live ranges, where a tile used in a loop that it was allocated
outside of lives through the whole loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from .affine import constant
from .errors import KernelError
from .ir import Buffer, PrimFunc
from .liveness import Live, live_ranges
from .regions import shape_text

UB_BYTES = 196608  # of one vector core (Ascend 910B and 910_93)
PLANNED_UB_BYTES = 196352  # what upstream's memory planning gives out: it keeps 256 for itself
ALIGN = 32


@dataclass
class Plan:
    """Byte offsets of the tiles (by root buffer), and the bytes used."""

    offsets: dict[Buffer, int]
    total: int


def tile_bytes(buffer: Buffer) -> int:
    total = buffer.dtype.bytes
    for dim in buffer.shape:
        total *= constant(dim) or 0
    return -(-total // ALIGN) * ALIGN


def plan(func: PrimFunc, reuse: bool) -> Plan:
    """Places all tiles of `func`.

    Raises KernelError, at the allocation that does not fit, if the unified buffer is too small.
    """
    tiles = live_ranges(func.body)
    # Without a `vid`, the body describes the work of both vector cores, each with its own buffer.
    capacity = (PLANNED_UB_BYTES if reuse else UB_BYTES) * (2 if func.threads == 2 else 1)
    offsets: dict[Buffer, int] = {}
    placed: list[Live] = []
    for tile in sorted(tiles, key=lambda t: t.buffer.manual_offset is None):
        offset = tile.buffer.manual_offset
        if offset is None:
            offset = _first_fit(tile, placed, offsets, reuse)
        if offset + tile_bytes(tile.buffer) > capacity:
            raise KernelError(_overflow(tile, offset, capacity, tiles, reuse), tile.buffer.loc)
        offsets[tile.buffer] = offset
        placed.append(tile)
    total = max((offsets[t.buffer] + tile_bytes(t.buffer) for t in tiles), default=0)
    return Plan(offsets, total)


def _first_fit(tile: Live, placed: list[Live], offsets: dict[Buffer, int], reuse: bool) -> int:
    blocks = sorted(
        (offsets[other.buffer], offsets[other.buffer] + tile_bytes(other.buffer))
        for other in placed
        if not reuse or (other.first <= tile.last and tile.first <= other.last)
    )
    start = 0
    for low, high in blocks:
        if low - start >= tile_bytes(tile.buffer):
            return start
        start = max(start, high)
    return start


def _overflow(tile: Live, offset: int, capacity: int, tiles: list[Live], reuse: bool) -> str:
    buffer = tile.buffer
    total = sum(tile_bytes(other.buffer) for other in tiles)
    hint = (
        "use smaller tiles"
        if reuse
        else ("use smaller tiles, or let TL_ASCEND_MEMORY_PLANNING reuse the place of dead ones")
    )
    return (
        f"unified buffer overflow: {buffer.name}{shape_text(buffer)} of {buffer.dtype} needs "
        f"{tile_bytes(tile.buffer)} bytes at offset {offset}, the buffer has {capacity} (all tiles "
        f"together: {total} bytes); {hint}"
    )
