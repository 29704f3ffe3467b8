"""Builds and checks the `T.tile.*` statements: element-wise ones from the table, and the others."""

from __future__ import annotations

import warnings
from typing import Any

from . import builder
from .affine import constant, product, same
from .arith import as_expr, binary, cast, const
from .dtypes import F32, I32, DType
from .errors import KernelError, KernelWarning
from .intrinsics import COMPARE, GATHER_PATTERNS, ROUNDING, SELECT_MODES, Intrinsic
from .ir import Buffer, Const, Dim, Expr, Operand, Region, SetDeqScale, TileOp
from .regions import as_load, describe, flat_region, shape_text
from .regions import count as size_of


def warn(text: str) -> None:
    """A Python warning at the place in the kernel's source that is being traced."""
    loc = builder.place()
    warnings.warn_explicit(text, KernelWarning, loc.file, loc.line)


def emit(op: str, dst: Region, *srcs: Operand, **attrs: Any) -> None:
    builder.current().emit(TileOp(builder.place(), op, dst, tuple(srcs), attrs))


def elementwise(row: Intrinsic, dst: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """One element-wise statement: checks sizes and types against the intrinsic's row."""
    name = f"T.tile.{row.name}"
    values = list(args) + list(kwargs.values())
    if len(values) != len(row.form):
        raise KernelError(f"{name} takes {len(row.form) + 1} operands, got {len(values) + 1}")
    target = flat_region(dst, f"dst of {name}")
    check_kind(name, target, row.kinds)
    limit: Any = None
    srcs: list[Operand] = []
    for position, (form, value) in enumerate(zip(row.form, values, strict=True)):
        what = f"operand {position + 1} of {name}"
        if form == "n":
            limit = element_count(name, value, [target, *_regions(srcs)])
        elif form == "v" or form == "x" and is_vector(value):
            srcs.append(_vector(name, what, value, target))
        else:
            srcs.append(scalar_operand(what, value, target.buffer.dtype))
    if limit is None:
        for region in _regions(srcs):
            check_same_count(name, target, region)
    emit(row.name, target, *srcs, count=limit)


def _regions(operands: list[Operand]) -> list[Region]:
    return [operand for operand in operands if isinstance(operand, Region)]


def _vector(name: str, what: str, value: Any, target: Region) -> Region:
    region = flat_region(value, what)
    if region.buffer.dtype is not target.buffer.dtype:
        raise KernelError(
            f"{name}: {region.buffer.name} is {region.buffer.dtype}, {target.buffer.name} is "
            f"{target.buffer.dtype}; all operands must have one dtype"
        )
    return region


def is_vector(value: Any) -> bool:
    return not isinstance(value, (Expr, int, float))


def check_kind(name: str, region: Region, kinds: str) -> None:
    dtype = region.buffer.dtype
    if dtype.name == "float64":
        raise KernelError(f"{name}: {region.buffer.name} is float64, which vector units lack")
    if dtype.kind not in kinds:
        words = {"f": "float", "i": "signed integer", "u": "unsigned integer"}
        wanted = " or ".join(words[kind] for kind in kinds)
        raise KernelError(f"{name} needs {wanted} elements, {region.buffer.name} is {dtype}")


def check_same_count(name: str, a: Region, b: Region) -> None:
    if not same(size_of(a), size_of(b)):
        raise KernelError(
            f"{name}: size must be same: {describe(a)} is {shape_text(a)}, "
            f"{describe(b)} is {shape_text(b)}"
        )


def scalar_operand(what: str, value: Any, dtype: DType) -> Expr:
    """A scalar for a vector instruction on `dtype`; `buf[i, j]` is refused.

    Upstream takes only the first index of such an element, so the device would read another one.
    A tile of one element stands for that element.
    """
    if isinstance(value, Buffer) and constant(product(value.shape)) == 1:
        value = value[tuple(0 for _ in value.shape)]
    load = as_load(value)
    if load is not None and load.buffer.scope == "ub" and len(load.indices) > 1:
        leading = [constant(index) for index in load.indices[:-1]]
        if any(index != 0 for index in leading):
            raise KernelError(
                f"{what}: the device takes only the first index of {load.buffer.name}[i, j]; "
                "assign the element to a name first",
                load.loc,
            )
    expr = as_expr(value)
    narrowing = expr.dtype.is_float and not dtype.is_float
    if isinstance(expr, Const) and narrowing:
        return const(expr.value, dtype)  # refuses all but whole numbers
    if narrowing or load is not None and expr.dtype is not dtype:
        raise KernelError(f"{what}: type mismatch: a {expr.dtype} scalar with {dtype} elements")
    return cast(expr, dtype)


def element_count(name: str, value: Any, regions: list[Region]) -> Expr:
    """A trailing `count` operand: how many elements the instruction touches.

    A constant that is too large is cut down with a warning: the device goes on past the tile, which
    scripts of upstream rely on to be harmless. One that is only known when running is a fault.
    """
    expr = as_expr(value)
    if not expr.dtype.is_int:
        raise KernelError(f"{name}: the count must be an integer, got {expr.dtype}")
    known = constant(expr)
    if known is not None and known < 0:
        raise KernelError(f"{name}: the count is negative: {known}")
    for region in regions:
        size = constant(size_of(region))
        if known is not None and size is not None and known > size:
            warn(
                f"{name}: count {known} exceeds {describe(region)}, which has {size} elements; the "
                f"device goes on past it, here it ends there"
            )
            known, expr = size, const(size, I32)
    return cast(expr, I32)


# -- instructions that are not element-wise ------------------------------------------------------


def fill(buffer: Any, value: Any) -> None:
    """Sets every element of `buffer` to the scalar `value`."""
    target = flat_region(buffer, "buffer of T.tile.fill")
    emit("fill", target, scalar_operand("value of T.tile.fill", value, target.buffer.dtype))


def clear(buffer: Any) -> None:
    """Sets every element of `buffer` to 0."""
    fill(buffer, 0)


def arith_progression(buffer: Any, first_value: Any, diff_value: Any, count: Any) -> None:
    """`first_value + i * diff_value` for the first `count` elements."""
    name = "T.tile.arith_progression"
    target = flat_region(buffer, f"buffer of {name}")
    dtype = target.buffer.dtype
    limit = element_count(name, count, [target])
    first = scalar_operand(f"first_value of {name}", first_value, dtype)
    step = scalar_operand(f"diff_value of {name}", diff_value, dtype)
    emit("progression", target, first, step, count=limit)


def createvecindex(dst: Any, firstValue: Any) -> None:
    """`firstValue, firstValue + 1, …` over the whole of `dst`."""
    name = "T.tile.createvecindex"
    target = flat_region(dst, f"dst of {name}")
    first = scalar_operand(f"firstValue of {name}", firstValue, target.buffer.dtype)
    emit("progression", target, first, const(1, target.buffer.dtype), count=None)


def cast_tile(dst: Any, src: Any, mode: str, count: Any) -> None:
    """Converts `count` elements to the type of `dst` with a rounding `mode` (CAST_RINT …)."""
    name = "T.tile.cast"
    if mode not in ROUNDING:
        raise KernelError(f"{name}: mode must be one of {', '.join(ROUNDING)}, got {mode!r}")
    target, source = flat_region(dst, f"dst of {name}"), flat_region(src, f"src of {name}")
    limit = element_count(name, count, [target, source])
    emit("cast", target, source, count=limit, mode=mode)


def set_deq_scale(scale: Any) -> None:
    """Sets the factor of every later conversion from int32 to float16; it is 1 at first."""
    value = as_expr(scale)
    if not (value.dtype.is_float or value.dtype.is_int):
        raise KernelError("T.set_deq_scale takes a number")
    builder.current().emit(SetDeqScale(builder.place(), cast(value, F32)))


def compare(dst: Any, src0: Any, src1: Any, mode: str) -> None:
    """Writes one bit per element of `src0`: bit i of byte i // 8 is `src0[i] MODE src1[i]`.

    `src1` is a vector or a scalar. The bytes of `src0` must be a multiple of 256.
    """
    name = "T.tile.compare"
    if mode not in COMPARE:
        raise KernelError(f"{name}: mode must be one of {', '.join(COMPARE)}, got {mode!r}")
    target, left = flat_region(dst, f"dst of {name}"), flat_region(src0, f"src0 of {name}")
    check_mask(name, target, left)
    size = constant(size_of(left))
    if size is not None and size * left.buffer.dtype.bytes % 256:
        raise KernelError(
            f"{name}: alignment: {describe(left)} has {size} elements of "
            f"{left.buffer.dtype.bytes} bytes; the device needs a multiple of 256 bytes"
        )
    if is_vector(src1):
        right: Operand = _vector(name, f"src1 of {name}", src1, left)
        check_same_count(name, left, right)  # type: ignore[arg-type]
    else:
        if isinstance(src1, int) and not isinstance(src1, bool):
            raise KernelError(f"{name}: write a scalar as a float or T.{left.buffer.dtype}(...); "
                              "upstream does not take a Python int")  # fmt: skip
        right = scalar_operand(f"src1 of {name}", src1, left.buffer.dtype)
    emit("compare", target, left, right, mode=mode)


def check_mask(name: str, mask: Region, data: Region) -> None:
    """A bit mask must be bytes, one bit per element of `data`."""
    if mask.buffer.dtype.name not in ("int8", "uint8"):
        raise KernelError(f"{name}: the mask {mask.buffer.name} must be int8 or uint8, "
                          f"is {mask.buffer.dtype}")  # fmt: skip
    bits, wanted = constant(size_of(mask)), constant(size_of(data))
    if bits is not None and wanted is not None and bits * 8 < wanted:
        raise KernelError(f"{name}: the mask {mask.buffer.name} has {bits * 8} bits for "
                          f"{wanted} elements")  # fmt: skip


def select(dst: Any, selMask: Any, src0: Any, src1: Any, selMode: str) -> None:
    """`src0` where the mask's bit is 1, else `src1` (a vector, or a scalar in scalar mode)."""
    name = "T.tile.select"
    if selMode not in SELECT_MODES:
        raise KernelError(f"{name}: selMode must be one of {', '.join(SELECT_MODES)}")
    target, left = flat_region(dst, f"dst of {name}"), _vector_like(name, src0, dst)
    mask = flat_region(selMask, f"selMask of {name}")
    check_same_count(name, target, left)
    check_mask(name, mask, left)
    if is_vector(src1):
        right: Operand = _vector_like(name, src1, dst)
        check_same_count(name, target, right)  # type: ignore[arg-type]
    else:
        right = scalar_operand(f"src1 of {name}", src1, target.buffer.dtype)
    if is_vector(src1) == (selMode == "VSEL_TENSOR_SCALAR_MODE"):
        raise KernelError(f"{name}: {selMode} does not go with a "
                          f"{'vector' if is_vector(src1) else 'scalar'} src1")  # fmt: skip
    emit("select", target, mask, left, right)


def _vector_like(name: str, value: Any, dst: Any) -> Region:
    return _vector(name, f"operand of {name}", value, flat_region(dst, f"dst of {name}"))


def gather(dst: Any, src: Any, src_offset: Any, src_base_addr: Any) -> None:
    """`dst[i] = src[(src_base_addr + src_offset[i]) / size]`: offsets count bytes, uint32."""
    name = "T.tile.gather"
    target = flat_region(dst, f"dst of {name}")
    source = _vector(name, f"src of {name}", src, target)
    offsets = flat_region(src_offset, f"src_offset of {name}")
    if offsets.buffer.dtype.name not in ("uint32", "int32"):
        raise KernelError(f"{name}: byte offsets must be uint32, {offsets.buffer.name} is "
                          f"{offsets.buffer.dtype}")  # fmt: skip
    base = scalar_operand(f"src_base_addr of {name}", src_base_addr, I32)
    limit = binary("min", as_expr(size_of(target)), as_expr(size_of(offsets)))
    emit("gather", target, source, offsets, base, count=limit)


def gather_mask(dst: Any, src: Any, src1Pattern: Any) -> None:
    """Compacts elements of `src`: by a fixed pattern ("P0101" …), or by uint32 element indices.

    With indices, the index tile is multiplied in place by the element size, as on the device.
    """
    name = "T.tile.gather_mask"
    target = flat_region(dst, f"dst of {name}")
    source = _vector(name, f"src of {name}", src, target)
    if isinstance(src1Pattern, str):
        if src1Pattern not in GATHER_PATTERNS:
            known = ", ".join(GATHER_PATTERNS)
            raise KernelError(f"{name}: pattern must be one of {known}, got {src1Pattern!r}")
        emit("gather_pattern", target, source, pattern=src1Pattern)
        return
    index = flat_region(src1Pattern, f"src1Pattern of {name}")
    if index.buffer.dtype.name != "uint32":
        raise KernelError(f"{name}: src1Pattern dtype must be uint32, got {index.buffer.dtype}")
    emit("gather_index", target, source, index)


def broadcast(dst: Any, src: Any, axis: int | None = None) -> None:
    """Repeats `src` ([1, N], [M, 1], [N], [M] or [1]) along `axis` (0 or 1) into `dst`."""
    name = "T.tile.broadcast"
    target = flat_region(dst, f"dst of {name}")
    source = _vector(name, f"src of {name}", src, target)
    rows, cols, along = _broadcast_shape(name, target, source, axis)
    emit("broadcast", target, source, rows=rows, cols=cols, axis=along)


def _last_two(name: str, region: Region) -> list[Dim]:
    outer = product(tuple(region.extents[:-2]))
    if constant(outer) != 1:
        raise KernelError(f"{name}: {describe(region)} has more than two dimensions")
    return list(region.extents[-2:])


def _broadcast_shape(
    name: str, target: Region, source: Region, axis: int | None
) -> tuple[Dim, Dim, int]:
    """Rows and columns of the result, and the axis along which `source` is repeated."""
    out, given = _last_two(name, target), _last_two(name, source)
    if axis not in (None, 0, 1) or axis == 1 and len(out) == 1:
        raise KernelError(f"{name}: axis must be 0 or 1 and exist, got {axis}")
    if len(out) == 1:
        if len(given) != 1 or not (constant(given[0]) == 1 or same(given[0], out[0])):
            raise _mismatch(name, source, target)
        return (out[0], 1, 0) if constant(given[0]) == 1 else (1, out[0], 0)
    if len(given) == 1:
        if axis == 0 or axis is None and same(out[1], given[0]):
            given, axis = [1, given[0]], 0
        elif axis == 1 or same(out[0], given[0]):
            given, axis = [given[0], 1], 1
        else:
            raise _mismatch(name, source, target)
    if axis is None:
        axis = int(constant(given[1]) == 1 and constant(out[1]) != 1 and
                   not (constant(given[0]) == 1 and constant(out[0]) != 1))  # fmt: skip
    other = 1 - axis
    repeated = constant(given[axis]) == 1
    if not same(given[other], out[other]) or not (repeated or same(given[axis], out[axis])):
        raise _mismatch(name, source, target)
    if not repeated:
        return 1, product(tuple(out)), 0
    return out[0], out[1], axis


def _mismatch(name: str, source: Region, target: Region) -> KernelError:
    return KernelError(
        f"{name}: dimension mismatch: cannot broadcast {describe(source)} {shape_text(source)} "
        f"to {describe(target)} {shape_text(target)}"
    )
