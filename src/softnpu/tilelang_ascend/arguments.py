"""Checks the arguments of a call against the kernel's parameters, and packs them.

The layout that the kernel reads: 8 bytes per parameter in order (addresses, integers, or the bits
of a double), then 8 bytes per symbolic dimension.
"""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .affine import constant
from .dtypes import DType
from .errors import KernelWarning, LaunchError
from .hosteval import evaluate
from .ir import Dim, Expr, Param, PrimFunc, Var


@dataclass
class TensorParam:
    """A tensor parameter. `size` is its shape if that is the same in every call."""

    name: str
    dtype: torch.dtype
    shape: tuple[Dim, ...]
    size: torch.Size | None


class Signature:
    """The parameters of a kernel, and which of them the call provides."""

    def __init__(self, func: PrimFunc, provided: list[int]) -> None:
        self.name = func.name
        self.params = [_prepare(param) for param in func.params]
        self.inputs = [(index, self.params[index]) for index in provided]
        self.made = [i for i in range(len(func.params)) if i not in provided]
        self.symbols = func.symbols
        self.scalars = [(i, p.var) for i, p in enumerate(func.params) if p.var is not None]
        kinds = ["d" if p.var is not None and p.var.dtype.is_float else "Q" for p in func.params]
        self.pack: Callable[..., bytes] = struct.Struct(
            "<" + "".join(kinds) + "Q" * len(func.symbols)
        ).pack

    def bind(
        self, args: tuple[Any, ...], device_type: str
    ) -> tuple[list[Any], dict[Var, int], Any]:
        """The argument words (0 for tensors still to be made), symbol values, and the device.

        Raises LaunchError, naming the parameter, for anything that does not fit.
        """
        if len(args) != len(self.inputs):
            args = self._right_number(args)
        words: list[Any] = [0] * len(self.params)
        values: dict[Var, int] = {}
        device = None
        for (index, param), arg in zip(self.inputs, args, strict=True):
            if not isinstance(param, TensorParam):
                words[index] = _scalar(self.name, param, arg)
                values[param] = words[index]
                continue
            if (
                not isinstance(arg, torch.Tensor)
                or arg.dtype is not param.dtype
                or not arg.is_contiguous()
                or (arg.shape != param.size if param.size is not None else True)
            ):
                self._check_tensor(index, param, arg, values)
            if device is None:
                device = arg.device
            if arg.device != device or device.type != device_type:
                self._refuse_device(param, arg, device, device_type)
            words[index] = arg.data_ptr()
        return words, values, device

    def _right_number(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Upstream ignores arguments that are too many; scripts pass outputs that way."""
        wanted = len(self.inputs)
        names = ", ".join(param.name for _, param in self.inputs)
        text = f"kernel {self.name} takes {wanted} arguments ({names}), got {len(args)}"
        if len(args) < wanted:
            raise LaunchError(text)
        warnings.warn(
            f"{text}: the last {len(args) - wanted} are ignored, as by upstream; outputs are made "
            "by the call and returned",
            KernelWarning,
            stacklevel=5,
        )
        return args[:wanted]

    def _check_tensor(
        self, index: int, param: TensorParam, arg: Any, values: dict[Var, int]
    ) -> None:
        if not isinstance(arg, torch.Tensor):
            raise LaunchError(f"kernel {self.name}, parameter {param.name}: "
                              f"unsupported tensor type: {type(arg).__name__}")  # fmt: skip
        if not arg.is_contiguous():
            raise LaunchError(f"kernel {self.name}: Input tensor at index {index} ({param.name}) "
                              "must be contiguous")  # fmt: skip
        if arg.dtype is not param.dtype:
            raise LaunchError(
                f"kernel {self.name}: Buffer dtype mismatch for parameter {param.name}: "
                f"expected {param.dtype}, got {arg.dtype}"
            )
        for dim, size in zip(param.shape, arg.shape, strict=False):
            if isinstance(dim, Var) and dim not in values:
                values[dim] = size
        if len(arg.shape) != len(param.shape) or any(
            not _fits(dim, size, values) for dim, size in zip(param.shape, arg.shape, strict=True)
        ):
            self._mismatch(param, arg, values)

    def _mismatch(self, param: TensorParam, arg: torch.Tensor, values: dict[Var, int]) -> None:
        """Another view of as many elements is what the kernel would see; anything else is not."""
        text = (
            f"kernel {self.name}: shape mismatch for parameter {param.name}: expected "
            f"{_shape_text(param.shape, values)}, got {tuple(arg.shape)}"
        )
        if param.size is not None and param.size.numel() == arg.numel():
            warnings.warn(f"{text}; taken as a view of it", KernelWarning, stacklevel=6)
        elif os.environ.get("SOFTNPU_ALLOW_SHAPE_MISMATCH") == "1":
            warnings.warn(text, KernelWarning, stacklevel=6)
        else:
            raise LaunchError(
                f"{text}. Upstream accepts this and computes with the declared shape on whatever "
                "memory follows; SOFTNPU_ALLOW_SHAPE_MISMATCH=1 does so here, inside the allocation"
            )

    def _refuse_device(self, param: TensorParam, arg: Any, device: Any, wanted: str) -> None:
        expected = device if device.type == wanted else wanted
        raise LaunchError(
            f"kernel {self.name}: Buffer device mismatch for parameter {param.name}: "
            f"expected {expected}, got {arg.device}"
        )

    def make(self, index: int, values: dict[Var, int], device: Any) -> torch.Tensor:
        """The output or workspace `index`, uninitialised, as the device's allocator gives it."""
        param = self.params[index]
        assert isinstance(param, TensorParam)
        size = param.size
        if size is None:
            size = torch.Size([evaluate(dim, values) for dim in param.shape])
        return torch.empty(size, dtype=param.dtype, device=device)

    def words_of_symbols(self, values: dict[Var, int]) -> list[int]:
        for var in self.symbols:
            if var not in values:
                raise LaunchError(
                    f"kernel {self.name}: the symbolic dimension {var.name} is not the size of "
                    "any input tensor, so its value is unknown"
                )
        return [values[var] for var in self.symbols]


def _prepare(param: Param) -> TensorParam | Var:
    if param.buffer is None:
        assert param.var is not None
        return param.var
    shape = param.buffer.shape
    known = [constant(dim) for dim in shape]
    size = None if None in known else torch.Size([dim or 0 for dim in known])
    return TensorParam(param.name, _torch_dtype(param.buffer.dtype), shape, size)


def _torch_dtype(dtype: DType) -> torch.dtype:
    found: torch.dtype = getattr(torch, dtype.torch_name)
    return found


def _scalar(kernel: str, var: Var, value: Any) -> Any:
    if isinstance(value, torch.Tensor) or not isinstance(value, (int, float, bool)):
        raise LaunchError(f"kernel {kernel}, parameter {var.name}: expected a {var.dtype} number, "
                          f"got {type(value).__name__}")  # fmt: skip
    if var.dtype.is_float:
        return float(value)
    if value != int(value):
        raise LaunchError(f"kernel {kernel}, parameter {var.name}: {value} is not a {var.dtype}")
    low = -(1 << (var.dtype.bits - 1)) if var.dtype.kind == "i" else 0
    if not low <= value < (1 << (var.dtype.bits - (var.dtype.kind == "i"))):
        raise LaunchError(f"kernel {kernel}, parameter {var.name}: {value} is outside {var.dtype}")
    return int(value) & 0xFFFFFFFFFFFFFFFF


def _fits(dim: Dim, size: int, values: dict[Var, int]) -> bool:
    if not isinstance(dim, Expr):
        return dim == size
    try:
        return evaluate(dim, values) == size
    except KeyError:
        return True  # an expression of a dimension that a later parameter binds


def _shape_text(shape: tuple[Dim, ...], values: dict[Var, int]) -> str:
    parts = []
    for dim in shape:
        try:
            parts.append(str(evaluate(dim, values)))
        except KeyError:
            parts.append(dim.name if isinstance(dim, Var) else "?")
    return f"({', '.join(parts)})"
