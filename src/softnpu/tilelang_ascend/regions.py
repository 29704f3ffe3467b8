"""Buffers, slices and element accesses as the language functions receive them, made regions."""

from __future__ import annotations

from typing import Any

from . import builder
from .affine import constant, difference, product, same, span
from .arith import as_expr, const
from .dtypes import I32
from .errors import KernelError, Loc
from .ir import Buffer, Dim, Expr, Load, Region, Var


def item(buffer: Buffer, index: Any) -> Expr | Region:
    """`buffer[index]`: an element if every index is a scalar, else a region.

    Missing ends of slices are 0 and the dimension; steps are refused.
    """
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) != len(buffer.shape):
        raise KernelError(
            f"{buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices"
        )
    loc = builder.here()
    if not any(isinstance(part, slice) for part in indices):
        element = Load(builder.current().view(buffer), tuple(_scalar(i) for i in indices), loc)
        check_inside(_element_region(element))
        return element
    mins, extents = [], []
    for part, dim in zip(indices, buffer.shape, strict=True):
        low, extent = _bounds(part, dim)
        mins.append(as_expr(low))
        extents.append(extent)
    return Region(builder.current().view(buffer), tuple(mins), tuple(extents), loc)


def _scalar(index: Any) -> Expr:
    expr = as_expr(index)
    if not expr.dtype.is_int:
        raise KernelError(f"an index must be an integer, got {expr.dtype}")
    return expr


def _bounds(part: Any, dim: Dim) -> tuple[Dim, Dim]:
    if not isinstance(part, slice):
        return _scalar(part), 1
    if part.step not in (None, 1):
        raise KernelError("slices with a step are not supported")
    low: Dim = 0 if part.start is None else part.start
    high: Dim = dim if part.stop is None else part.stop
    extent = difference(high, low)
    if isinstance(extent, int) and extent <= 0:
        raise KernelError(f"the slice is empty: its length is {extent}")
    return low, extent


def whole(buffer: Buffer, loc: Loc | None) -> Region:
    """All of `buffer`."""
    seen = builder.current().view(buffer)
    zero = tuple(const(0, I32) for _ in seen.shape)
    return Region(seen, zero, seen.shape, loc, whole=True)


def as_load(value: Any) -> Load | None:
    """The element access behind `value`, also through a let binding."""
    if isinstance(value, Var) and value.let is not None:
        value = value.let
    return value if isinstance(value, Load) else None


def region_of(value: Any, what: str, scope: str | None = None) -> Region:
    """`value` (buffer or slice) as a region in `scope`.

    Raises KernelError that calls the operand `what` if it is something else.
    """
    if isinstance(value, Buffer):
        region = whole(value, builder.here())
    elif isinstance(value, Region):
        region = value
    elif isinstance(value, Load):
        region = _element_region(value)
    else:
        raise KernelError(f"{what} must be a buffer or a slice of one, got {_kind(value)}")
    if scope is not None and region.buffer.scope != scope:
        wanted = {"ub": "in the unified buffer", "gm": "in global memory"}[scope]
        raise KernelError(f"{what} ({region.buffer.name}) must be {wanted}")
    check_inside(region)
    return region


def _element_region(load: Load) -> Region:
    return Region(load.buffer, load.indices, tuple(1 for _ in load.indices), load.loc)


def _kind(value: Any) -> str:
    return f"a scalar {value.dtype}" if isinstance(value, Expr) else type(value).__name__


def check_inside(region: Region) -> None:
    """Refuses a region of the unified buffer that is outside its buffer in every run."""
    if region.buffer.scope != "ub":
        return
    for axis, (low, extent, dim) in enumerate(
        zip(region.mins, region.extents, region.buffer.shape, strict=True)
    ):
        lows, limit = span(low), constant(dim)
        length = constant(extent) or 1
        if lows is None or limit is None:
            continue
        if lows[1] < 0 or lows[0] + length > limit:
            raise KernelError(
                f"{describe(region)} is outside {region.buffer.name}{shape_text(region.buffer)}: "
                f"index {lows[0] + length - 1 if lows[1] >= 0 else lows[1]} in dimension {axis}",
                region.loc,
            )


def is_flat(region: Region) -> bool:
    """Whether the region's elements are one contiguous run of its buffer."""
    dims = list(zip(region.extents, region.buffer.shape, strict=True))
    while dims and constant(dims[0][0]) == 1:
        dims.pop(0)
    return all(same(extent, dim) for extent, dim in dims[1:])


def flat_region(value: Any, what: str) -> Region:
    """A region of the unified buffer that is one contiguous run, as vector instructions need."""
    region = region_of(value, what, "ub")
    if not is_flat(region):
        raise KernelError(
            f"{what}: {describe(region)} is not one contiguous run of "
            f"{region.buffer.name}{shape_text(region.buffer)}; the device would touch other "
            "elements than the slice says. Copy it to a tile of its own, or loop over its rows",
            region.loc,
        )
    return region


def count(region: Region) -> Dim:
    """How many elements the region has."""
    return product(region.extents)


def dim_text(dim: Dim) -> str:
    known = constant(dim)
    if known is not None:
        return str(known)
    return dim.name if isinstance(dim, Var) else "?"


def shape_text(buffer: Buffer | Region) -> str:
    dims = buffer.shape if isinstance(buffer, Buffer) else buffer.extents
    return "[" + ", ".join(dim_text(d) for d in dims) + "]"


def describe(region: Region) -> str:
    """The region as the user would write it, as far as its bounds are known."""
    if region.whole:
        return region.buffer.name
    parts = []
    for low, extent in zip(region.mins, region.extents, strict=True):
        first, length = constant(low), constant(extent)
        if length == 1:
            parts.append(dim_text(low))
        elif first is not None and length is not None:
            parts.append(f"{first}:{first + length}")
        else:
            parts.append(f"{dim_text(low)}:+{dim_text(extent)}")
    return f"{region.buffer.name}[{', '.join(parts)}]"
