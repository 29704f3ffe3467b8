"""`tilelang.jit` and `tilelang.compile`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

from .errors import KernelError
from .ir import PrimFunc
from .kernel import JITKernel, legal_indices


class PassConfigKey(StrEnum):
    """The compiler switches of the dialect.

    The device here executes in program order, so the synchronisation switches change nothing;
    memory planning decides whether the places of dead tiles are used again.
    """

    TL_ASCEND_AUTO_SYNC = "tl.ascend_auto_sync"
    TL_ASCEND_MEMORY_PLANNING = "tl.ascend_memory_planning"
    TL_ASCEND_AUTO_CV_COMBINE = "tl.ascend_auto_cv_combine"
    TL_ASCEND_AUTO_CV_SYNC = "tl.ascend_auto_cross_core_sync"
    TIR_MERGE_STATIC_SMEM = "tir.merge_static_smem"


TARGETS = ("auto", "ascendc", "pto")
PLATFORMS = ("auto", "A2", "A3")
BACKENDS = ("cython", "auto")


def _choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise KernelError(f"{name} {value!r} is not supported; known: {', '.join(known)}")


def read_pass_configs(configs: Mapping[Any, Any] | None) -> dict[PassConfigKey, bool]:
    """The switches by key.

    Raises KernelError for a key that this version does not know, or a value that is no bool.
    """
    result = {}
    for key, value in (configs or {}).items():
        try:
            known = PassConfigKey(key)
        except ValueError:
            names = ", ".join(config.name for config in PassConfigKey)
            raise KernelError(f"unknown pass config {key!r}; known: {names}") from None
        if not isinstance(value, bool):
            raise KernelError(f"pass config {known.name} must be True or False, got {value!r}")
        result[known] = value
    return result


def compile(
    func: PrimFunc,
    out_idx: int | Sequence[int] | None = None,
    workspace_idx: int | Sequence[int] | None = None,
    execution_backend: str = "cython",
    target: str = "auto",
    target_host: Any = None,
    platform: str = "auto",
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
) -> JITKernel:
    """Compiles a traced kernel. `out_idx` and `workspace_idx` are parameters that calls omit.

    `verbose` prints the generated C++.
    Raises KernelError for unknown options and for a kernel that cannot be compiled.
    """
    __tracebackhide__ = True
    _choice("target", target, TARGETS)
    _choice("platform", platform, PLATFORMS)
    _choice("execution_backend", execution_backend, BACKENDS)
    if target_host is not None:
        raise KernelError("target_host is not supported")
    if not isinstance(func, PrimFunc):
        raise KernelError(
            f"expected a function decorated with @T.prim_func, got {type(func).__name__}"
        )
    configs = read_pass_configs(pass_configs)
    reuse = configs.get(PassConfigKey.TL_ASCEND_MEMORY_PLANNING, False)
    outputs = legal_indices("out_idx", out_idx, func)
    workspaces = legal_indices("workspace_idx", workspace_idx, func)
    try:
        kernel = JITKernel(func, outputs, workspaces, reuse)
    except KernelError as error:
        raise error.with_traceback(None) from None
    if verbose:
        print(kernel.kernel_source)
    return kernel


def jit(
    func: Callable[..., Any] | None = None,
    *,
    out_idx: int | Sequence[int] | None = None,
    workspace_idx: int | Sequence[int] | None = None,
    target: str = "auto",
    target_host: Any = None,
    platform: str = "auto",
    execution_backend: str = "cython",
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    debug_root_path: str | None = None,
) -> Any:
    """Decorator of a function that returns a kernel: calls give the compiled kernel.

    One kernel is kept per tuple of arguments, which must be hashable.
    Raises KernelError now for unknown options, and when called for mistakes in the kernel.
    """
    if isinstance(func, PrimFunc):
        raise KernelError("Use tilelang.jit to decorate prim_func is not supported yet.")
    if debug_root_path is not None:
        raise KernelError(
            "debug_root_path is not supported; use verbose=True or get_kernel_source()"
        )
    _choice("target", target, TARGETS)
    _choice("platform", platform, PLATFORMS)
    _choice("execution_backend", execution_backend, BACKENDS)
    read_pass_configs(pass_configs)
    options: dict[str, Any] = {
        "out_idx": out_idx, "workspace_idx": workspace_idx, "target": target,
        "target_host": target_host, "platform": platform,
        "execution_backend": execution_backend, "verbose": verbose, "pass_configs": pass_configs,
    }  # fmt: skip

    def decorate(factory: Callable[..., Any]) -> Callable[..., JITKernel]:
        kernels: dict[Any, JITKernel] = {}

        @functools.wraps(factory)
        def wrapper(*args: Any, **kwargs: Any) -> JITKernel:
            __tracebackhide__ = True
            key = (args, tuple(sorted(kwargs.items())))
            try:
                found = kernels.get(key)
            except TypeError as error:
                raise KernelError(
                    f"{factory.__name__}: arguments must be hashable: {error}"
                ) from None
            if found is None:
                found = kernels[key] = _build(factory, args, kwargs, options)
            return found

        wrapper.__jit_impl__ = SimpleNamespace(func=factory, **options)  # type: ignore[attr-defined]
        return wrapper

    return decorate if func is None else decorate(func)


def _build(
    factory: Callable[..., Any], args: Any, kwargs: Any, options: dict[str, Any]
) -> JITKernel:
    __tracebackhide__ = True
    try:
        return compile(factory(*args, **kwargs), **options)
    except KernelError as error:
        raise error.with_traceback(None) from None
