"""`T.tile.*` and reductions in C++: a block with pointers, checks and one call of vector.h."""

from __future__ import annotations

from collections.abc import Callable

from ..affine import product
from ..dtypes import DType
from ..intrinsics import COMPARE, GATHER_PATTERNS, ROUNDING, TABLE, Intrinsic
from ..ir import Expr, Region, TileOp
from .copy import emit_transfer
from .sort import emit_merge_sort, emit_sort
from .writer import Writer

_PARAMETERS = "xyz"


def emit_tile(out: Writer, op: TileOp) -> None:
    """Writes one tile statement."""
    with out.braces():
        if op.op in TABLE:
            _elementwise(out, op, TABLE[op.op])
        else:
            _SPECIAL[op.op](out, op)


def _elementwise(out: Writer, op: TileOp, row: Intrinsic) -> None:
    dtype = op.dst.buffer.dtype
    out.declare("d", op.dst)
    vectors = _sources(out, op)
    scalars = [src for src in op.srcs if isinstance(src, Expr)]
    reads_old = "d" in row.expr.replace("sn::", "").replace("decltype", "").split()
    names = ["d", *vectors] if reads_old else list(vectors)
    parameters = ["d"] if reads_old else []
    parameters += [_PARAMETERS[i] for i, s in enumerate(op.srcs) if isinstance(s, Region)]
    for i, src in enumerate(op.srcs):
        if isinstance(src, Expr):
            _scalar(out, row, src, _PARAMETERS[i], dtype)
    expr = row.scalar_expr if scalars and row.scalar_expr else row.expr
    regions = [op.dst, *(src for src in op.srcs if isinstance(src, Region))]
    n = out.count(op.attrs.get("count"), regions, op.loc)
    head = ", ".join(f"auto {name}" for name in parameters)
    body = expr if dtype.is_float else f"static_cast<{dtype.value}>({expr})"
    call = f"sn::map{len(names)}(d, {', '.join(names)}, {n}, [=]({head}) {{ return {body}; }});"
    out.line(call)


def _scalar(out: Writer, row: Intrinsic, src: Expr, name: str, dtype: DType) -> None:
    text = out.scalar(src, dtype)
    out.settle()
    if row.scalar:
        out.line(f"const {dtype.value} s = {text};")
        text = out.rounded(row.scalar, dtype)
    out.line(f"const {dtype.value} {name} = {text};")


def _sources(out: Writer, op: TileOp) -> list[str]:
    """Declares the vector operands as `a0`, `a1` … and returns these names."""
    names: list[str] = []
    for src in op.srcs:
        if isinstance(src, Region):
            name = f"a{len(names)}"
            out.declare(name, src, constant=True)
            out.apart(op.dst, src, name, op.loc)
            names.append(name)
    return names


def _fill(out: Writer, op: TileOp) -> None:
    (value,) = op.srcs
    assert isinstance(value, Expr)
    dtype = op.dst.buffer.dtype
    out.declare("d", op.dst)
    text = out.scalar(value, dtype)
    out.settle()
    out.line(f"sn::fill(d, sn::store<{dtype.cpp}>({text}), {out.size(op.dst)});")


def _progression(out: Writer, op: TileOp) -> None:
    dtype = op.dst.buffer.dtype
    out.declare("d", op.dst)
    first, step = (out.scalar(src, dtype) for src in op.srcs if isinstance(src, Expr))
    n = out.count(op.attrs["count"], [op.dst], op.loc)
    out.settle()
    out.line(f"sn::progression<{dtype.cpp}, {dtype.value}>(d, {first}, {step}, {n});")


def _cast(out: Writer, op: TileOp) -> None:
    (src,) = op.srcs
    assert isinstance(src, Region)
    out.declare("d", op.dst)
    _sources(out, op)
    n = out.count(op.attrs["count"], [op.dst, src], op.loc)
    if (src.buffer.dtype.name, op.dst.buffer.dtype.name) == ("int32", "float16"):
        out.line(f"sn::cast_scaled(d, a0, {n}, task.deq_scale);")
        return
    mode = ROUNDING[op.attrs["mode"]]
    types = f"{op.dst.buffer.dtype.cpp}, {src.buffer.dtype.cpp}"
    out.line(f"sn::cast<{mode}, {types}>(d, a0, {n});")


def _compare(out: Writer, op: TileOp) -> None:
    left, right = op.srcs
    assert isinstance(left, Region)
    out.line(f"uint8_t* const d = reinterpret_cast<uint8_t*>({out.pointer(op.dst)});")
    _sources(out, op)
    other, step = _vector_or_scalar(out, right, left.buffer.dtype, "a1")
    body = f"[](auto x, auto y) {{ return {COMPARE[op.attrs['mode']]}; }}"
    out.line(f"sn::compare(d, a0, {other}, {step}, {out.size(left)}, {body});")


def _vector_or_scalar(
    out: Writer, operand: Expr | Region, dtype: DType, vector: str
) -> tuple[str, int]:
    """The address of an operand, and 1 if it advances with the elements."""
    if isinstance(operand, Region):
        return vector, 1
    text = out.scalar(operand, dtype)
    out.settle()
    out.line(f"const {dtype.cpp} scalar = sn::store<{dtype.cpp}>({text});")
    return "&scalar", 0


def _select(out: Writer, op: TileOp) -> None:
    mask, left, right = op.srcs
    assert isinstance(mask, Region) and isinstance(left, Region)
    out.declare("d", op.dst)
    out.declare("m", mask, constant=True)
    out.declare("a0", left, constant=True)
    out.apart(op.dst, left, "a0", op.loc)
    if isinstance(right, Region):
        out.declare("a1", right, constant=True)
        out.apart(op.dst, right, "a1", op.loc)
    other, step = _vector_or_scalar(out, right, left.buffer.dtype, "a1")
    bits = "reinterpret_cast<const uint8_t*>(m)"
    out.line(f"sn::select(d, {bits}, a0, {other}, {step}, {out.size(op.dst)});")


def _gather(out: Writer, op: TileOp) -> None:
    source, offsets, base = op.srcs
    assert isinstance(source, Region) and isinstance(offsets, Region) and isinstance(base, Expr)
    out.declare("d", op.dst)
    _sources(out, op)
    start = out.scalar(base, base.dtype)
    n = out.index(op.attrs["count"])
    out.settle()
    place = out.places.of(op.loc)
    room = _rest(out, source)
    out.require(f"sn::gather(task, d, a0, {room}, a1, {start}, {n}, {place})")


def _rest(out: Writer, region: Region) -> str:
    """Elements from the region's start to the end of its buffer: offsets may reach that far."""
    whole = Region(region.buffer, region.mins, region.buffer.shape)
    flat = out.offset(region.buffer, [out.index(low) for low in region.mins])
    return f"({out.size(whole)} - ({flat}))"


def _gather_pattern(out: Writer, op: TileOp) -> None:
    (src,) = op.srcs
    assert isinstance(src, Region)
    group, first = GATHER_PATTERNS[op.attrs["pattern"]]
    out.declare("d", op.dst)
    _sources(out, op)
    kept = f"({out.size(src)} / {group})"
    out.require(f"task.fits({kept}, {out.size(op.dst)}, {out.places.of(op.loc)})")
    out.line(f"for (int64_t i = 0; i < {kept}; ++i) d[i] = a0[i * {group} + {first}];")


def _gather_index(out: Writer, op: TileOp) -> None:
    source, index = op.srcs
    assert isinstance(source, Region) and isinstance(index, Region)
    size = source.buffer.dtype.bytes
    out.declare("d", op.dst)
    out.declare("a0", source, constant=True)
    out.declare("a1", index)
    n = out.size(index)
    place = out.places.of(op.loc)
    out.require(f"task.fits({n}, {out.size(op.dst)}, {place})")
    out.line(f"for (int64_t i = 0; i < {n}; ++i) a1[i] *= {size}u;")
    out.require(f"sn::gather(task, d, a0, {_rest(out, source)}, a1, INT64_C(0), {n}, {place})")


def _broadcast(out: Writer, op: TileOp) -> None:
    out.declare("d", op.dst)
    _sources(out, op)
    rows, cols = out.index(op.attrs["rows"]), out.index(op.attrs["cols"])
    kind = "cols" if op.attrs["axis"] == 1 else "rows"
    out.line(f"sn::broadcast_{kind}(d, a0, {rows}, {cols});")


def _reduce(out: Writer, op: TileOp) -> None:
    (src,) = op.srcs
    assert isinstance(src, Region)
    out.declare("d", op.dst)
    _sources(out, op)
    place = out.places.of(op.loc)
    rows = out.count(op.attrs["rows"], [], op.loc)
    cols = out.count(op.attrs["cols"], [], op.loc)
    for used, room in (("rows", "all_rows"), ("cols", "stride")):
        if not out.is_inside(0, op.attrs[used], op.attrs[room]):
            text, limit = out.index(op.attrs[used]), out.index(op.attrs[room])
            out.require(f"task.fits({text}, {limit}, {place})")
    along = op.attrs["axis"] == 1
    results = op.attrs["rows"] if along else op.attrs["cols"]
    if not out.is_inside(0, results, product(op.dst.extents)):
        out.require(f"task.fits({out.index(results)}, {out.size(op.dst)}, {place})")
    name = f"sn::reduce_{'rows' if along else 'cols'}<sn::{op.attrs['kind'].capitalize()}>"
    clear = "true" if op.attrs["clear"] else "false"
    out.line(f"{name}(d, a0, {rows}, {cols}, {out.index(op.attrs['stride'])}, {clear});")


def _atomic_add(out: Writer, op: TileOp) -> None:
    (src,) = op.srcs
    assert isinstance(src, Region)
    emit_transfer(out, "add_tile", op.dst, src, None, op.loc)


_SPECIAL: dict[str, Callable[[Writer, TileOp], None]] = {
    "fill": _fill,
    "progression": _progression,
    "cast": _cast,
    "compare": _compare,
    "select": _select,
    "gather": _gather,
    "gather_pattern": _gather_pattern,
    "gather_index": _gather_index,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "atomic_add": _atomic_add,
    "sort": emit_sort,
    "merge_sort": emit_merge_sort,
}
