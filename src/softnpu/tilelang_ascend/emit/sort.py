"""The sorting instructions in C++: calls of sort.h."""

from __future__ import annotations

from ..affine import product
from ..ir import Region, TileOp
from .writer import Writer

HEADER = "sort.h"
OPS = ("sort", "merge_sort")


def emit_sort(out: Writer, op: TileOp) -> None:
    """`sort` and `topk`."""
    (src,) = op.srcs
    assert isinstance(src, Region)
    out.declare("d", op.dst)
    out.declare("a0", src)
    length, actual, keep = (op.attrs[name] for name in ("length", "actual", "keep"))
    words = [
        "task", "d", out.size(op.dst), "a0", out.size(src), out.index(length), out.index(actual),
        "INT64_C(-1)" if keep is None else out.index(keep), str(out.places.of(op.loc)),
    ]  # fmt: skip
    out.settle()
    out.require(f"sn::sort({', '.join(words)})")


def emit_merge_sort(out: Writer, op: TileOp) -> None:
    """`merge_sort` of two to four runs."""
    out.declare("d", op.dst)
    runs = [src for src in op.srcs if isinstance(src, Region)]
    for i, run in enumerate(runs):
        out.declare(f"a{i}", run, constant=True)
    cpp = op.dst.buffer.dtype.cpp
    names = ", ".join(f"a{i}" for i in range(len(runs)))
    lengths = ", ".join(f"{out.index(product(run.extents))} / 2" for run in runs)
    out.line(f"const {cpp}* const runs[] = {{{names}}};")
    out.line(f"const int64_t lengths[] = {{{lengths}}};")
    place = out.places.of(op.loc)
    out.require(f"sn::merge_runs(task, d, runs, lengths, {len(runs)}, {place})")
