"""Decides what a `T.copy` moves: the shapes of both sides, and which forms are refused.

Between global memory and a tile, a copy moves rows x columns: the last two dimensions that are
not 1. Forms for which the device moves other elements than the slice says are errors here.
"""

from __future__ import annotations

from typing import Any

from . import builder
from .affine import constant, same
from .arith import cast
from .errors import KernelError
from .ir import Buffer, Copy, Dim, Load, Region
from .regions import as_load, count, describe, is_flat, region_of, shape_text


def plan_copy(src: Any, dst: Any, pad_value: Any) -> Copy:
    """A checked copy statement.

    Raises KernelError for copies between memories that have no path, and for shapes that differ.
    """
    source, target = _pair(src, dst)
    scopes = source.buffer.scope, target.buffer.scope
    if scopes == ("gm", "gm"):
        raise KernelError("T.copy: there is no path from global memory to global memory")
    if scopes == ("ub", "ub"):
        _check_tiles(source, target)
    else:
        _check_transfer(source, target)
    pad = cast(0 if pad_value is None else pad_value, target.buffer.dtype)
    return Copy(builder.place(), source, target, pad)


def _pair(src: Any, dst: Any) -> tuple[Region, Region]:
    first, second = as_load(src), as_load(dst)
    if first is not None and second is not None:
        raise KernelError("T.copy: can't deduce copy extents from args: both are single elements")
    if first is not None:
        target = region_of(dst, "dst of T.copy")
        return _origin(first, target), target
    source = region_of(src, "src of T.copy")
    if second is not None:
        return source, _origin(second, source)
    target = region_of(dst, "dst of T.copy")
    if isinstance(src, Buffer) and isinstance(dst, Buffer) and not _same_shape(source, target):
        raise KernelError(
            f"T.copy: shapes differ: {source.buffer.name}{shape_text(source)} and "
            f"{target.buffer.name}{shape_text(target)}"
        )
    return source, target


def _origin(load: Load, other: Region) -> Region:
    """`buf[i, j]` as the first element of a tile as large as `other`."""
    rank = len(load.indices)
    extents = list(other.extents)
    while len(extents) > rank and constant(extents[0]) == 1:
        extents.pop(0)
    if len(extents) > rank:
        raise KernelError(
            f"T.copy: {load.buffer.name} has {rank} dimensions, the other side is "
            f"{shape_text(other)}"
        )
    ones: list[Dim] = [1] * (rank - len(extents))
    region = Region(load.buffer, load.indices, tuple(ones + extents), load.loc)
    return region if load.buffer.scope == "gm" else region_of(region, "dst of T.copy")


def _same_shape(a: Region, b: Region) -> bool:
    return len(a.extents) == len(b.extents) and all(
        same(x, y) for x, y in zip(a.extents, b.extents, strict=True)
    )


def _squeezed(region: Region) -> list[Dim]:
    return [extent for extent in region.extents if constant(extent) != 1]


def _check_tiles(source: Region, target: Region) -> None:
    a, b = _squeezed(source), _squeezed(target)
    alike = len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if not alike and not (
        is_flat(source) and is_flat(target) and same(count(source), count(target))
    ):
        raise KernelError(
            f"T.copy: sizes differ: {describe(source)} is {shape_text(source)}, "
            f"{describe(target)} is {shape_text(target)}"
        )
    for region in (source, target):
        if not is_flat(region) and len(_squeezed(region)) > 2:
            raise KernelError(f"T.copy: {describe(region)} has more than two dimensions "
                              "that are not contiguous")  # fmt: skip


def tile_shape(region: Region) -> tuple[Dim, Dim]:
    """Rows and columns of a region: its last two dimensions that are not 1."""
    dims = active_dims(region)
    rows = region.extents[dims[0]] if dims[0] is not None else 1
    return rows, region.extents[dims[1]]


def facing_shape(gm: Region, ub: Region) -> tuple[Dim, Dim]:
    """Rows and columns of the tile in a transfer; a single row fills a tile of any shape."""
    if constant(tile_shape(gm)[0]) == 1:
        return 1, count(ub)
    return tile_shape(ub)


def active_dims(region: Region) -> tuple[int | None, int]:
    """The indices of the row dimension (None if there is none) and the column dimension."""
    last = len(region.extents) - 1
    outer = [i for i in range(last) if constant(region.extents[i]) != 1]
    if len(outer) > 1:
        raise KernelError(
            f"T.copy: {describe(region)} has {len(outer) + 1} dimensions that are not 1; the "
            "device copies only the last two. Loop over the outer ones"
        )
    if outer:
        return outer[0], last
    return (last - 1 if last > 0 else None), last


def _check_transfer(source: Region, target: Region) -> None:
    gm, ub = (source, target) if source.buffer.scope == "gm" else (target, source)
    if gm.buffer.dtype is not ub.buffer.dtype:
        raise KernelError(
            f"T.copy: {gm.buffer.name} is {gm.buffer.dtype}, {ub.buffer.name} is "
            f"{ub.buffer.dtype}; only copies between tiles convert"
        )
    if not is_flat(ub):
        raise KernelError(
            f"T.copy: {describe(ub)} is not one contiguous run of {ub.buffer.name}"
            f"{shape_text(ub.buffer)}; the device treats it as one"
        )
    rows, cols = tile_shape(gm)
    if constant(cols) == 1 and constant(rows) != 1 and constant(gm.buffer.shape[-1]) != 1:
        raise KernelError(
            f"T.copy: {describe(gm)} is a column; the device copies only its first element"
        )
    _check_fit(gm, ub, (rows, cols), facing_shape(gm, ub))


def _check_fit(
    gm: Region, ub: Region, gm_shape: tuple[Dim, Dim], ub_shape: tuple[Dim, Dim]
) -> None:
    for name, wanted, room in zip(("rows", "columns"), gm_shape, ub_shape, strict=True):
        needed, given = constant(wanted), constant(room)
        if needed is not None and given is not None and needed > given:
            raise KernelError(
                f"T.copy: {describe(gm)} has {needed} {name}, {describe(ub)} only {given}"
            )
