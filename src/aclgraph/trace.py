"""What a step does, seen operator by operator while it runs eagerly.

A graph holds addresses and host scalars as they were at capture. Which ones a step uses is seen by
watching it run once; two such traces compared show what a graph would keep and the step would not.
Kernels that are launched past PyTorch's dispatcher (TileLang's) are not seen here.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

# Operators whose result is a host value, or whose output shape is: they wait for the device.
_READS = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "item", "unique2", "_unique2"}


@dataclass(frozen=True)
class Outside:
    """A device tensor that a step uses and did not make itself."""

    tensor: torch.Tensor
    op: str
    where: str
    written: bool


@dataclass(frozen=True)
class Call:
    """One operator: its host arguments, and where the tensors from outside lie."""

    op: str
    where: str
    scalars: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]
    outside: tuple[tuple[int, str], ...]


@dataclass
class Trace:
    """A step as it ran.

    Attributes:
        calls: every operator, in order.
        outside: tensors from outside by storage address, the first use of each.
        made: storage addresses of what the step allocated itself.
        host_reads: where the step waited for the device, as "operator at file:line".
        host_copies: where it used host memory, likewise.
    """

    calls: list[Call] = field(default_factory=list)
    outside: dict[int, Outside] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    host_reads: list[str] = field(default_factory=list)
    host_copies: list[str] = field(default_factory=list)


def traced(step: Callable[[], Any]) -> tuple[Any, Trace]:
    """Runs `step()` eagerly; its result, and what it did."""
    recorder = _Recorder()
    with recorder:
        result = step()
    return result, recorder.trace


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.trace = Trace()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        where = _caller()
        name = func._schema.name.removeprefix("aten::")
        written = _written_names(func)
        outside, scalars, shapes = [], [], []
        devices = set()
        for argument, value in _arguments(func, args, kwargs):
            for leaf in tree_flatten(value)[0]:
                if not isinstance(leaf, torch.Tensor):
                    scalars.append(leaf)
                    continue
                shapes.append(tuple(leaf.shape))
                devices.add(leaf.device.type)
                if leaf.device.type == "cpu":
                    continue
                address = storage_of(leaf)
                if address not in self.trace.made:
                    outside.append((address, argument))
                    self._note(leaf, address, name, where, argument in written)
        result = func(*args, **kwargs)
        for leaf in tree_flatten(result)[0]:
            if isinstance(leaf, torch.Tensor):
                devices.add(leaf.device.type)
                if storage_of(leaf) not in self.trace.outside:
                    self.trace.made.add(storage_of(leaf))
        self._note_host(name, devices, result, where)
        self.trace.calls.append(Call(name, where, tuple(scalars), tuple(shapes), tuple(outside)))
        return result

    def _note(self, leaf: torch.Tensor, address: int, op: str, where: str, written: bool) -> None:
        known = self.trace.outside.get(address)
        if known is None or (written and not known.written):
            kept = leaf if known is None else known.tensor
            self.trace.outside[address] = Outside(kept, op, where, written)

    def _note_host(self, name: str, devices: set[str], result: Any, where: str) -> None:
        on_device = devices - {"cpu", "meta"}
        if not on_device:
            return
        to_host = isinstance(result, torch.Tensor) and result.device.type == "cpu"
        if name in _READS or to_host:
            self.trace.host_reads.append(f"{name} at {where}")
        elif "cpu" in devices and name in ("_to_copy", "copy_"):
            self.trace.host_copies.append(f"{name} at {where}")


def storage_of(tensor: torch.Tensor) -> int:
    """Identifies a tensor's memory while it lives, whatever part of it the tensor is a view of."""
    return tensor.untyped_storage()._cdata


def _written_names(func: Any) -> set[str]:
    arguments = func._schema.arguments
    return {a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write}


def _arguments(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    for declared, value in zip(func._schema.arguments, args, strict=False):
        yield declared.name, value
    yield from kwargs.items()


def _caller() -> str:
    """file:line of the innermost frame that is neither PyTorch's nor ours."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if "/torch/" not in path and "/torch_npu/" not in path and path != __file__:
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown"
