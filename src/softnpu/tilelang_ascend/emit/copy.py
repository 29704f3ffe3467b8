"""`T.copy` in C++."""

from __future__ import annotations

from ..copies import active_dims, facing_shape, tile_shape
from ..errors import Loc
from ..ir import Copy, Dim, Expr, Region
from ..regions import is_flat
from .writer import Writer, same_run

# Conversions between tiles that need no rounding; every other one rounds to nearest even.
_EXACT = {
    ("float16", "float32"), ("bfloat16", "float32"), ("int16", "float32"), ("int8", "float16"),
    ("int32", "int16"),
}  # fmt: skip


def emit_copy(out: Writer, copy: Copy) -> None:
    """Writes one copy statement."""
    with out.braces():
        if copy.src.buffer.scope == "gm":
            emit_transfer(out, "read_tile", copy.src, copy.dst, copy.pad, copy.loc)
        elif copy.dst.buffer.scope == "gm":
            emit_transfer(out, "write_tile", copy.dst, copy.src, None, copy.loc)
        else:
            _between_tiles(out, copy)


def emit_transfer(
    out: Writer, name: str, gm: Region, ub: Region, pad: Expr | None, loc: Loc
) -> None:
    """A call of one of transfer.h's functions, for a window of `gm` and the tile `ub`."""
    tensor = out.names.of("g_", gm.buffer)
    place = out.places.of(loc)
    out.declare("tile", ub)
    window = _window(out, gm, tensor, place)
    out.line(f"const sn::Window w{{{window}}};")
    rows, cols = (out.index(dim) for dim in facing_shape(gm, ub))
    fill = ""
    if pad is not None:
        text = out.scalar(pad, pad.dtype)
        out.settle()
        fill = f", sn::store<{pad.dtype.cpp}>({text})"
    out.require(f"sn::{name}(task, {tensor}, w, tile, {rows}, {cols}{fill}, {place})")


def _window(out: Writer, gm: Region, tensor: str, place: int) -> str:
    row, col = active_dims(gm)
    strides = out.strides(gm.buffer)
    texts = []
    for axis, low in enumerate(gm.mins):
        text, dim = out.index(low), gm.buffer.shape[axis]
        if axis not in (row, col) and not out.is_inside(low, 1, dim):
            out.settle()
            out.require(f"{tensor}.dimension(task, {text}, {out.index(dim)}, {axis}, {place})")
        texts.append(text)
    out.settle()
    offset = out.offset(gm.buffer, texts)
    fields: list[str] = [offset, strides[row] if row is not None else "0"]
    for chosen in (row, col):
        if chosen is None:
            fields += ["0", "1", "1"]
        else:
            size, limit = gm.extents[chosen], gm.buffer.shape[chosen]
            fields += [texts[chosen], out.index(size), out.index(limit)]
    return ", ".join(fields)


def _between_tiles(out: Writer, copy: Copy) -> None:
    src, dst = copy.src, copy.dst
    out.declare("d", dst)
    out.declare("a0", src, constant=True)
    if not same_run(dst, src) or src.buffer.dtype is not dst.buffer.dtype:
        out.apart(dst, src, "a0", copy.loc)
    if is_flat(src) and is_flat(dst):
        out.line(_run(copy, "d", "a0", out.size(dst)))
        return
    rows, cols = tile_shape(src if not is_flat(src) else dst)
    with out.braces(f"for (int64_t r = 0; r < {out.index(rows)}; ++r)"):
        to, origin = _row(out, dst, "d", cols), _row(out, src, "a0", cols)
        out.line(_run(copy, to, origin, out.index(cols)))


def _row(out: Writer, region: Region, name: str, cols: Dim) -> str:
    if is_flat(region):
        return f"{name} + r * {out.index(cols)}"
    row, _ = active_dims(region)
    return f"{name} + r * {out.strides(region.buffer)[row or 0]}"


def _run(copy: Copy, to: str, origin: str, n: str) -> str:
    """One contiguous run: moved as it is, or converted."""
    source, target = copy.src.buffer.dtype, copy.dst.buffer.dtype
    if source is target:
        return f"memmove({to}, {origin}, static_cast<size_t>({n}) * {target.bytes});"
    if (source.name, target.name) == ("int32", "float16"):
        return f"sn::cast_scaled({to}, {origin}, {n}, task.deq_scale);"
    mode = "none" if (source.name, target.name) in _EXACT else "rint"
    return f"sn::cast<sn::Round::{mode}, {target.cpp}, {source.cpp}>({to}, {origin}, {n});"
