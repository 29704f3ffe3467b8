"""Builds and checks `T.tile.sort`, `T.tile.topk` and `T.tile.merge_sort`.

All three work on interleaved pairs [value, index, value, index, …] in descending order, where an
index is a float value of the tile's own type.
"""

from __future__ import annotations

from typing import Any

from .affine import constant
from .errors import KernelError
from .ir import Region
from .regions import count as size_of
from .regions import describe, flat_region
from .tile_ops import check_kind, element_count, emit


def sort(dst: Any, src: Any, actual_num: Any) -> None:
    """All pairs of `src`, largest value first.

    The elements from `actual_num` to the next multiple of 32 become -infinity in `src` and take
    part; `dst` needs two elements for each.
    """
    target, source = _operands("T.tile.sort", dst, src)
    limit = element_count("T.tile.sort", actual_num, [source])
    emit("sort", target, source, length=limit, actual=limit, keep=None)


def topk(dst: Any, src: Any, K: Any, actual_num: Any) -> None:
    """The first `K` pairs of `src`, largest value first; as `sort` over the whole of `src`."""
    name = "T.tile.topk"
    target, source = _operands(name, dst, src)
    limit = element_count(name, actual_num, [source])
    keep = element_count(name, K, [source])
    emit("sort", target, source, length=size_of(source), actual=limit, keep=keep)


def merge_sort(dst: Any, src0: Any, src1: Any, src2: Any = None, src3: Any = None) -> None:
    """Merges two to four runs of pairs that are already in descending order."""
    name = "T.tile.merge_sort"
    given = [src for src in (src0, src1, src2, src3) if src is not None]
    if len(given) < 2:
        raise KernelError(f"{name} requires 2-4 source buffers, got {len(given)}")
    pairs = [_operands(name, dst, src) for src in given]
    target, runs = pairs[0][0], [source for _, source in pairs]
    total = 0
    for run in runs:
        size = constant(size_of(run))
        if size is None or size % 2:
            raise KernelError(f"{name}: {describe(run)} must hold a known number of pairs")
        total += size
    if total > (constant(size_of(target)) or 0):
        raise KernelError(f"{name}: {total} elements do not fit {describe(target)}")
    emit("merge_sort", target, *runs)


def _operands(name: str, dst: Any, src: Any) -> tuple[Region, Region]:
    target, source = flat_region(dst, f"dst of {name}"), flat_region(src, f"src of {name}")
    check_kind(name, target, "f")
    if source.buffer.dtype is not target.buffer.dtype:
        raise KernelError(
            f"{name}: {source.buffer.name} is {source.buffer.dtype}, {target.buffer.name} is "
            f"{target.buffer.dtype}"
        )
    if source.buffer.root is target.buffer.root:
        raise KernelError(f"{name}: src and dst must be different tiles")
    return target, source
