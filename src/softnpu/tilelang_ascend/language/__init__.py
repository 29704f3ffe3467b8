"""The names of `import tilelang.language as T` in the TileLang-Ascend dialect."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..errors import KernelError
from ..intrinsics import UNSUPPORTED
from ..macro import macro
from ..primfunc import prim_func
from ..reduce_ops import reduce as _reduce
from ..tile_ops import set_deq_scale
from . import scalar, tile
from .branches import Else, If, Then
from .memory import alloc_shared, alloc_ub, alloc_var, copy, reinterpretcast
from .structure import (
    Buffer,
    Kernel,
    Parallel,
    Pipelined,
    Scope,
    Tensor,
    annotate_address,
    annotate_layout,
    annotate_padding,
    func_attr,
    grid,
    loop_break,
    serial,
    symbolic,
    unroll,
)
from .sync import barrier_all, pipe_barrier, printf, set_flag, wait_flag
from .tile import refusing

reduce_sum = partial(_reduce, "sum")
reduce_max = partial(_reduce, "max")
reduce_min = partial(_reduce, "min")


def reduce(
    buffer: Any, out: Any, reduce_type: str, dim: int, real_shape: Any = None, clear: bool = True
) -> None:
    """As `reduce_sum` and its sisters, with the operation's name as an argument."""
    if reduce_type not in ("sum", "max", "min"):
        raise KernelError(f"T.reduce: unknown reduce_type {reduce_type!r}")
    _reduce(reduce_type, buffer, out, dim, clear=clear, real_shape=real_shape)


_SCALAR = [
    "And", "Cast", "Not", "Or", "Select", "abs", "cast", "ceildiv", "clamp", "floordiv",
    "floormod", "if_then_else", "infinity", "max", "max_value", "min", "min_value", "pow",
    "power", "reinterpret", "truncdiv", "truncmod", "bool", *scalar.MATH, *scalar.SCALAR_TYPES,
]  # fmt: skip
globals().update({name: getattr(scalar, name) for name in _SCALAR})
globals().update({name: refusing(f"T.{name}", reason) for name, reason in UNSUPPORTED.items()})


def __getattr__(name: str) -> Any:
    raise AttributeError(f"T.{name} is not part of the TileLang-Ascend language of this version")


__all__ = [
    "Buffer", "Else", "If", "Kernel", "Parallel", "Pipelined", "Scope", "Tensor", "Then",
    "alloc_shared", "alloc_ub", "alloc_var", "annotate_address", "annotate_layout",
    "annotate_padding", "barrier_all", "copy", "func_attr", "grid", "loop_break", "macro",
    "pipe_barrier", "prim_func", "printf", "reduce", "reduce_max", "reduce_min", "reduce_sum",
    "reinterpretcast", "serial", "set_deq_scale", "set_flag", "symbolic", "tile", "unroll",
    "wait_flag", *_SCALAR, *UNSUPPORTED,
]  # fmt: skip
