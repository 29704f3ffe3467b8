"""Allocation of tiles and scalars, copies between memories, and views."""

from __future__ import annotations

from typing import Any

from .. import builder
from ..affine import constant
from ..arith import cast
from ..copies import plan_copy
from ..dtypes import DType, dtype_of, dtype_of_c_name
from ..errors import KernelError
from ..ir import Alias, Alloc, Buffer, DeclareVar, LocalVar, TileOp
from ..regions import region_of, shape_text
from .structure import shape_of


def alloc_ub(shape: Any, dtype: Any = "float32") -> Buffer:
    """A tile in the unified buffer of a vector core. Its contents are undefined at first."""
    return _alloc("T.alloc_ub", shape, dtype_of(dtype))


def alloc_shared(shape: Any, dtype: Any = "float32", scope: str = "shared.dyn") -> Buffer:
    """A tile whose memory upstream infers; without a cube core it is the unified buffer."""
    if scope not in ("shared.dyn", "shared"):
        raise KernelError(f"T.alloc_shared: unknown scope {scope!r}")
    return _alloc("T.alloc_shared", shape, dtype_of(dtype))


def _alloc(name: str, shape: Any, dtype: DType) -> Buffer:
    dims = shape_of(shape)
    sizes = [constant(dim) for dim in dims]
    if any(size is None or size <= 0 for size in sizes):
        raise KernelError(f"{name}: the shape of a tile must be positive constants")
    loc = builder.place()
    tile = Buffer("tile", tuple(size or 0 for size in sizes), dtype, "ub", loc)
    build = builder.current()
    build.emit(Alloc(loc, tile))
    build.unnamed.add(tile)
    return tile


def alloc_var(dtype: Any, *args: Any, scope: str | None = None, init: Any = None) -> LocalVar:
    """A mutable scalar, 0 unless `init` (a number or an expression) is given."""
    rest = list(args)
    if rest and isinstance(rest[-1], str):
        scope = rest.pop()
    if len(rest) > 1 or rest and init is not None:
        raise KernelError("T.alloc_var: the initial value is given twice")
    if scope not in (None, "local.var"):
        raise KernelError(f"T.alloc_var: unknown scope {scope!r}")
    value = rest[0] if rest else init
    kind = dtype_of(dtype)
    var = LocalVar("var", kind)
    start = cast(0 if value is None else value, kind)
    builder.current().emit(DeclareVar(builder.place(), var, start))
    return var


def copy(
    src: Any, dst: Any, enable_relu: bool = False, transpose: bool = False, pad_value: Any = None
) -> None:
    """Copies between global memory and the unified buffer, or between tiles (with a cast).

    A transfer from global memory is clamped to the tensor; the rest of the tile is `pad_value`
    (default 0). A transfer to global memory writes only what is inside the tensor.
    Raises KernelError for shapes that the device would copy otherwise than they say.
    """
    if enable_relu or transpose:
        raise KernelError("T.copy: enable_relu and transpose belong to the cube core, "
                          "which is not emulated yet")  # fmt: skip
    builder.current().emit(plan_copy(src, dst, pad_value))


def reinterpretcast(dst: Buffer, src: Any, casttype: str) -> None:
    """Makes `dst` a view of the bytes of `src` from here on, of the C type `casttype`."""
    kind = dtype_of_c_name(casttype)
    region = region_of(src, "src of T.reinterpretcast", "ub")
    if not isinstance(dst, Buffer) or dst.scope != "ub":
        raise KernelError("dst of T.reinterpretcast must be a tile")
    if not region.whole:
        raise KernelError("T.reinterpretcast: the device ignores the offset of a slice; "
                          "use the whole tile")  # fmt: skip
    if _bytes(dst, kind) > _bytes(region.buffer, region.buffer.dtype):
        raise KernelError(
            f"T.reinterpretcast: {dst.name}{shape_text(dst)} of {kind} needs more bytes than "
            f"{region.buffer.name}{shape_text(region.buffer)} of {region.buffer.dtype} has"
        )
    build, loc = builder.current(), builder.place()
    seen = Buffer(dst.name, dst.shape, kind, "ub", loc, alias_of=region.buffer)
    build.emit(Alias(loc, seen, region.buffer))
    build.views[build.view(dst)] = seen


def _bytes(buffer: Buffer, dtype: DType) -> int:
    total = dtype.bytes
    for dim in buffer.shape:
        total *= constant(dim) or 0
    return total


def atomic_add(dst: Any, src: Any) -> None:
    """Adds a tile to global memory, element by element, atomically between cores."""
    source = region_of(src, "src of T.tile.atomic_add")
    if source.buffer.scope == "gm":
        raise KernelError("T.tile.atomic_add: src scope must be local, got global")
    target = region_of(dst, "dst of T.tile.atomic_add")
    if target.buffer.scope != "gm":
        raise KernelError("T.tile.atomic_add only supports local tensor -> GM: "
                          f"dst ({target.buffer.name}) is not in global memory")  # fmt: skip
    step = plan_copy(src, dst, None)
    if step.src.buffer.dtype is not step.dst.buffer.dtype:
        raise KernelError("T.tile.atomic_add: both sides must have one dtype")
    builder.current().emit(TileOp(builder.place(), "atomic_add", step.dst, (step.src,)))
