"""Builds and checks `T.reduce_sum`, `T.reduce_max` and `T.reduce_min`."""

from __future__ import annotations

from typing import Any

from .affine import constant, same
from .arith import as_expr, cast, select
from .dtypes import I32
from .errors import KernelError
from .ir import Dim, Region
from .regions import dim_text, flat_region
from .tile_ops import check_kind, emit

_UNSET = object()


def reduce(
    op: str, buffer: Any, out: Any, dim: int = -1, *args: Any, clear: Any = _UNSET,
    real_shape: Any = _UNSET,
) -> None:  # fmt: skip
    """Reduces a 1-D or 2-D tile along `dim` with `op` (sum, max or min) into `out`.

    `clear=False` combines with the old `out`. `real_shape` is the valid [rows, cols] of a padded
    tile; 0 means all. Both may also be given positionally, in any order.
    """
    name = f"T.reduce_{op}"
    clear, real_shape = _options(name, args, clear, real_shape)
    source, target = flat_region(buffer, f"buffer of {name}"), flat_region(out, f"out of {name}")
    if source.buffer.dtype is not target.buffer.dtype:
        raise KernelError(
            f"{name}: {source.buffer.name} is {source.buffer.dtype}, {target.buffer.name} is "
            f"{target.buffer.dtype}"
        )
    check_kind(name, source, "fi")
    shape = list(source.extents)
    axis = _axis(name, shape, dim)
    if len(shape) == 3:
        if constant(shape[0]) != 1:
            raise KernelError(f"{name}: only the trailing 2-D tile of a 3-D buffer is reduced; "
                              f"{source.buffer.name} has {dim_text(shape[0])} of them")  # fmt: skip
        shape = shape[1:]
    valid = _valid(name, shape, real_shape)
    _check_out(name, shape, valid, axis, target)
    rows, cols = (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])
    used_rows, used_cols = (1, valid[0]) if len(shape) == 1 else (valid[0], valid[1])
    emit(
        "reduce", target, source, kind=op, axis=axis, clear=clear, rows=used_rows,
        cols=used_cols, stride=cols, all_rows=rows,
    )  # fmt: skip


def _options(name: str, args: tuple[Any, ...], clear: Any, real_shape: Any) -> tuple[bool, Any]:
    for arg in args:
        if isinstance(arg, bool) and clear is _UNSET:
            clear = arg
        elif isinstance(arg, (list, tuple)) and real_shape is _UNSET:
            real_shape = arg
        else:
            raise KernelError(f"{name}: after dim come clear (bool) and real_shape (list), "
                              f"each once; got {type(arg).__name__}")  # fmt: skip
    clear = True if clear is _UNSET else clear
    if not isinstance(clear, bool):
        raise KernelError(f"{name}: clear must be a bool, got {type(clear).__name__}")
    return clear, None if real_shape is _UNSET else real_shape


def _axis(name: str, shape: list[Dim], dim: Any) -> int:
    """0 for a reduction over rows, 1 for one along each row."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise KernelError(f"{name}: dim must be an integer axis, got {type(dim).__name__}")
    rank = len(shape)
    if rank not in (1, 2, 3):
        raise KernelError(f"{name}: only 1-D, 2-D and trailing-tile 3-D buffers can be reduced")
    trailing = min(rank, 2)
    axis = dim if dim >= 0 else trailing + dim
    if not 0 <= axis < trailing:
        choices = "0/-1" if rank == 1 else "0/1/-1/-2"
        raise KernelError(f"{name}: only axis {choices} of a {rank}-D buffer, got dim={dim}")
    return 1 if rank == 1 else axis


def _valid(name: str, shape: list[Dim], real_shape: Any) -> list[Dim]:
    if real_shape is None:
        return shape
    if not isinstance(real_shape, (list, tuple)) or len(real_shape) != 2:
        raise KernelError(f"{name}: real_shape is a list of two lengths")
    values = list(real_shape) if len(shape) == 2 else [real_shape[1]]
    result: list[Dim] = []
    for axis, (value, extent) in enumerate(zip(values, shape, strict=True)):
        if isinstance(value, bool) or not as_expr(value).dtype.is_int:
            raise KernelError(f"{name}: real_shape[{axis}] must be an integer")
        known, limit = constant(value), constant(extent)
        if known is not None and limit is not None and not 0 <= known <= limit:
            raise KernelError(
                f"{name}: real_shape[{axis}]={known} must be 0 to the buffer's extent {limit}"
            )
        if known is not None:
            result.append(known or extent)
        else:
            result.append(cast(select(as_expr(value) == 0, extent, value), I32))
    return result


def _check_out(name: str, shape: list[Dim], valid: list[Dim], axis: int, target: Region) -> None:
    kept = valid[1 - axis : 2 - axis] if len(shape) == 2 else []
    accepted: list[list[Dim]] = (
        [kept or [1], [kept[0], 1] if axis else [1, *kept]] if kept else [[1]]
    )
    if len(shape) == 2 and valid is not shape:
        accepted += [[shape[1]], [1, shape[1]], [shape[1 - axis]]]
    out = list(target.extents)
    squeezed = [extent for extent in out if constant(extent) != 1] or [1]
    for wanted in accepted:
        core = [extent for extent in wanted if constant(extent) != 1] or [1]
        if len(core) == len(squeezed) and all(
            same(a, b) for a, b in zip(core, squeezed, strict=True)
        ):
            return
    choices = " or ".join(_text(wanted) for wanted in accepted)
    raise KernelError(
        f"Invalid reduce output shape: {name} of {_text(valid)} along dim {axis} into "
        f"{target.buffer.name} {_text(out)}; expected {choices}"
    )


def _text(shape: list[Dim]) -> str:
    return "[" + ", ".join(dim_text(extent) for extent in shape) + "]"
