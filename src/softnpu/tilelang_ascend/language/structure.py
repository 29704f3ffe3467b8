"""Program structure: parameters, the kernel frame, scopes and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import builder, loops
from ..affine import constant
from ..arith import as_expr
from ..builder import Builder, KernelHead
from ..dtypes import I32, dtype_of
from ..errors import KernelError, Loc
from ..ir import Break, Dim, Stmt, Var
from ..primfunc import TensorSpec

MAX_BLOCKS = 65535  # of one launch on the device


class _TensorFactory:
    """`T.Tensor(shape, dtype)` or `T.Tensor[shape, dtype]`: a tensor parameter in global memory."""

    def __call__(self, shape: Any, dtype: Any = "float32", **layout: Any) -> TensorSpec:
        refused = {
            name: value for name, value in layout.items() if value not in (None, (), "global")
        }
        if refused:
            raise KernelError(f"T.Tensor: {', '.join(refused)} is not supported")
        return TensorSpec(shape_of(shape), dtype_of(dtype))

    def __getitem__(self, key: Any) -> TensorSpec:
        shape, dtype = key if isinstance(key, tuple) and len(key) == 2 else (key, "float32")
        return self(shape, dtype)


Tensor = _TensorFactory()
Buffer = Tensor


def shape_of(shape: Any) -> tuple[Dim, ...]:
    """A shape given as an int, an expression or a sequence of them."""
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    known = [constant(as_expr(dim)) for dim in dims]
    if any(dim is not None and dim < 0 for dim in known):
        raise KernelError(f"negative dimension in shape {tuple(known)}")
    return tuple(dim if size is None else size for dim, size in zip(dims, known, strict=True))


def symbolic(name: str, dtype: str = "int32") -> Var:
    """A dimension whose value is taken from the tensors of each call."""
    return Var(name, dtype_of(dtype), (0, 2**31 - 1))


@dataclass
class Kernel:
    """`with T.Kernel(blocks, is_npu=True) as (cid, vid)`: the frame of a kernel.

    `vid` (0 or 1) is the vector core of block `cid`. With `threads` 1 or 2 there is no `vid`:
    the frame yields `cid`, and the body describes the work of both vector cores together.
    """

    blocks: Any
    threads: int | None = None
    is_cpu: bool = False
    prelude: str | None = None
    is_npu: bool = False
    pipeline: bool = False

    def __init__(
        self, *blocks: Any, threads: int | None = None, is_cpu: bool = False,
        prelude: str | None = None, is_npu: bool = False, pipeline: bool = False,
    ) -> None:  # fmt: skip
        if len(blocks) != 1:
            raise KernelError("an NPU kernel must have exactly one block dimension")
        if not is_npu:
            raise KernelError("T.Kernel needs is_npu=True in this dialect")
        if threads not in (None, 1, 2):
            raise KernelError(f"threads must be 1 or 2 on an NPU, got {threads}")
        if is_cpu or prelude or pipeline:
            raise KernelError("T.Kernel: is_cpu, prelude and pipeline are not supported")
        self.blocks, self.threads = blocks[0], threads

    def enter_kernel(self, build: Builder) -> Any:
        if build.head is not None:
            raise KernelError("a kernel has one T.Kernel frame")
        blocks = as_expr(self.blocks)
        known = constant(blocks)
        if known is not None and not 1 <= known <= MAX_BLOCKS:
            raise KernelError(f"a launch has 1 to {MAX_BLOCKS} blocks, got {known}")
        cid = Var("cid", I32, (0, (known or MAX_BLOCKS) - 1))
        vid = Var("vid", I32, (0, 1))
        grid = blocks if known is None else known
        build.head = KernelHead(grid, cid, vid, self.threads)
        return (cid, vid) if self.threads is None else cid

    def leave_kernel(self, build: Builder, loc: Loc, body: list[Stmt] | None) -> None:
        """Nothing to close: the frame ends with the function."""


class Scope:
    """`with T.Scope("V")`: statements of the vector cores. The cube's "C" is refused."""

    nested = False

    def __init__(self, name: str) -> None:
        if name not in ("C", "V"):
            raise KernelError(f'T.Scope takes "C" or "V", got {name!r}')
        if name == "C":
            raise KernelError('T.Scope("C"): the cube core is not emulated yet')
        self.name = name

    def enter_kernel(self, build: Builder) -> None:
        if build.scope is not None:
            raise KernelError("T.Scope cannot be nested")
        build.scope = self.name

    def leave_kernel(self, build: Builder, loc: Loc, body: list[Stmt] | None) -> None:
        build.scope = None


def _no_annotations(name: str, annotations: dict[str, Any] | None) -> None:
    if annotations:
        raise KernelError(f"{name}: annotations are not supported: {', '.join(annotations)}")


def serial(
    start: Any, stop: Any = None, *, annotations: dict[str, Any] | None = None
) -> loops.LoopSpace:
    """A loop from `start` to `stop`, or from 0 to `start`."""
    _no_annotations("T.serial", annotations)
    return loops.between(start, stop)


def unroll(
    start: Any, stop: Any = None, *, annotations: dict[str, Any] | None = None
) -> loops.LoopSpace:
    """As `serial`; unrolling does not change what a loop means."""
    _no_annotations("T.unroll", annotations)
    return loops.between(start, stop)


def grid(*extents: Any) -> loops.LoopSpace:
    """Nested loops, the last index fastest."""
    return loops.box(extents)


def Pipelined(
    start: Any, stop: Any = None, num_stages: int = 0, **schedule: Any
) -> loops.LoopSpace:
    """A serial loop: what a software pipeline means if its stages are independent."""
    known = {"order", "stage", "sync", "group", "cross_interval"}
    if set(schedule) - known:
        raise KernelError(f"T.Pipelined: unknown {', '.join(set(schedule) - known)}")
    if not isinstance(num_stages, int) or num_stages < 0:
        raise KernelError(f"T.Pipelined: num_stages must be a count, got {num_stages!r}")
    return loops.between(start, stop)


def Parallel(*extents: Any, coalesced_width: int | None = None) -> loops.LoopSpace:
    """An element-wise loop over one or two dimensions; each statement is one vector operation."""
    if not 1 <= len(extents) <= 2:
        raise KernelError(
            f"T.Parallel takes one or two dimensions on an NPU, got {len(extents)}: "
            "3D or higher dimensional parallel loops are not supported"
        )
    return loops.box(extents, parallel=True)


def loop_break() -> None:
    """Leaves the innermost loop."""
    builder.current().emit(Break(builder.place()))


def func_attr(attrs: dict[str, Any]) -> None:
    """Attributes for upstream's compiler; they do not change what a kernel computes."""
    if not isinstance(attrs, dict):
        raise KernelError("T.func_attr takes a dict")


def annotate_layout(layouts: dict[Any, Any]) -> None:
    """A layout hint for L1 tiles; without effect on results."""
    _check_hints("T.annotate_layout", layouts)


def annotate_padding(padding: dict[Any, Any]) -> None:
    """A padding hint; without effect on results."""
    _check_hints("T.annotate_padding", padding)


def annotate_address(addresses: dict[Any, int]) -> None:
    """Places tiles by hand: byte offsets in the unified buffer, multiples of 32."""
    _check_hints("T.annotate_address", addresses)
    for buffer, offset in addresses.items():
        if not isinstance(offset, int) or offset < 0 or offset % 32:
            raise KernelError(
                f"T.annotate_address: {buffer.name} needs an offset that is a multiple of 32 "
                f"bytes, got {offset!r}"
            )
        buffer.manual_offset = offset


def _check_hints(name: str, hints: Sequence[Any] | dict[Any, Any]) -> None:
    from ..ir import Buffer as Tile

    if not isinstance(hints, dict) or not all(isinstance(b, Tile) for b in hints):
        raise KernelError(f"{name} takes a dict whose keys are buffers")
