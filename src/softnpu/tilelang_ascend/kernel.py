"""A compiled kernel: what `tilelang.jit` and `tilelang.compile` return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import ub_plan
from .arguments import Signature
from .checks import check
from .compiler import compile_module
from .emit.module import emit_module
from .errors import KernelError, LaunchError
from .hosteval import evaluate
from .ir import PrimFunc
from .language.structure import MAX_BLOCKS
from .launcher import Launcher, device_launcher


class JITKernel:
    """A kernel ready to be called with tensors on the device.

    A call enqueues the kernel on torch_npu's current stream and returns the outputs: the tensor if
    there is one, else a list. It makes outputs (`out_idx`) and workspaces, uninitialised.
    Raises LaunchError for arguments that do not fit; a fault while the kernel runs surfaces at the
    next synchronise, as for any operator.
    """

    def __init__(
        self,
        func: PrimFunc,
        out_idx: list[int],
        workspace_idx: list[int],
        reuse_ub: bool = False,
        launcher: Launcher | None = None,
    ) -> None:
        check(func)
        self.prim_func = func
        self.out_idx, self.workspace_idx = out_idx, workspace_idx
        plan = ub_plan.plan(func, reuse_ub)
        self.ub_bytes = plan.total
        self._module = emit_module(func, plan)
        self._code = compile_module(self._module)
        hidden = {*out_idx, *workspace_idx}
        provided = [i for i in range(len(func.params)) if i not in hidden]
        self._signature = Signature(func, provided)
        self._launcher = launcher
        self._handle: Any = None

    @property
    def params(self) -> list[Any]:
        """The kernel's parameters, in order."""
        return self.prim_func.params

    @property
    def kernel_source(self) -> str:
        """The generated C++."""
        return self._module.source

    def get_kernel_source(self) -> str:
        """The generated C++."""
        return self._module.source

    def __call__(self, *args: Any, stream: int = -1) -> Any:
        __tracebackhide__ = True
        try:
            return self._call(args, stream)
        except KernelError as error:
            raise error.with_traceback(None) from None

    def _call(self, args: tuple[Any, ...], stream: int) -> Any:
        launcher = self._launcher
        if launcher is None:
            launcher = self._launcher = device_launcher()
        signature = self._signature
        words, values, device = signature.bind(args, launcher.device_type)
        if device is None:
            device = torch.device(launcher.device_type)
        made = {}
        for index in signature.made:
            made[index] = tensor = signature.make(index, values, device)
            words[index] = tensor.data_ptr()
        if signature.symbols:
            words += signature.words_of_symbols(values)
        if self._handle is None:
            self._handle = launcher.load(self._code, self._module.name)
        grid = self.prim_func.grid
        blocks = grid if isinstance(grid, int) else self._blocks(evaluate(grid, values))
        if stream == -1:
            stream = launcher.stream(device)
        launcher.launch(self._handle, blocks, stream, signature.pack(*words))
        outputs = [made[index] for index in self.out_idx]
        return outputs[0] if len(outputs) == 1 else outputs

    def _blocks(self, blocks: int) -> int:
        if not 1 <= blocks <= MAX_BLOCKS:
            raise LaunchError(
                f"kernel {self.prim_func.name}: a launch has 1 to {MAX_BLOCKS} blocks, got {blocks}"
            )
        return blocks

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"JITKernel.{name} is not supported by softnpu's TileLang-Ascend")


def legal_indices(name: str, given: int | Sequence[int] | None, func: PrimFunc) -> list[int]:
    """Parameter numbers from an `out_idx` or `workspace_idx`; negative ones count from the end.

    Raises LaunchError for a number that no parameter has, or that is a scalar's.
    """
    if given is None:
        return []
    count = len(func.params)
    result = []
    for index in [given] if isinstance(given, int) else list(given):
        if isinstance(index, bool) or not isinstance(index, int) or not -count <= index < count:
            raise LaunchError(
                f"{name} should be an integer between {-count} and {count - 1} for kernel "
                f"{func.name}, got {index!r}"
            )
        if func.params[index].buffer is None:
            raise LaunchError(f"{name}: parameter {func.params[index].name} of kernel {func.name} "
                              "is a scalar")  # fmt: skip
        result.append(index % count)
    return result
