"""`T.tile`: the vector instructions. Element-wise ones come from `intrinsics.TABLE`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import KernelError
from ..intrinsics import TABLE, UNSUPPORTED_TILE, Intrinsic
from ..sort_ops import merge_sort, sort, topk
from ..tile_ops import (
    arith_progression,
    broadcast,
    cast_tile,
    clear,
    compare,
    createvecindex,
    elementwise,
    fill,
    gather,
    gather_mask,
    select,
)
from .memory import atomic_add

cast = cast_tile


def _function(row: Intrinsic) -> Callable[..., None]:
    def intrinsic(dst: Any, *operands: Any, **named: Any) -> None:
        elementwise(row, dst, operands, named)

    intrinsic.__name__ = row.name
    intrinsic.__doc__ = f"Element-wise: dst = {row.expr}. {row.note}".rstrip()
    return intrinsic


def refusing(name: str, reason: str) -> Callable[..., None]:
    """A function of the language that is not implemented: names itself when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise KernelError(f"{name} is not supported: {reason}")

    refuse.__name__ = name.rsplit(".", 1)[-1]
    return refuse


globals().update({name: _function(row) for name, row in TABLE.items()})
globals().update(
    {name: refusing(f"T.tile.{name}", reason) for name, reason in UNSUPPORTED_TILE.items()}
)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"T.tile.{name} is not part of the TileLang-Ascend language")


__all__ = [
    "arith_progression", "atomic_add", "broadcast", "cast", "clear", "compare", "createvecindex",
    "fill", "gather", "gather_mask", "merge_sort", "select", "sort", "topk", *TABLE,
    *UNSUPPORTED_TILE,
]  # fmt: skip
