"""`T.prim_func`: traces a decorated Python function into a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import builder
from .affine import operands
from .dtypes import DTYPES, DType
from .errors import KernelError
from .frontend import Frontend, placed
from .ir import Buffer, Dim, Expr, Param, PrimFunc, Var
from .source import Source, read, visible_names


class TensorSpec:
    """What `T.Tensor(shape, dtype)` says of a parameter."""

    def __init__(self, shape: tuple[Dim, ...], dtype: DType) -> None:
        self.shape, self.dtype = shape, dtype


class ScalarType(str):
    """A dtype of the language: an annotation of scalar parameters, a cast when called."""

    @property
    def dtype(self) -> DType:
        return DTYPES[self]

    def __call__(self, value: Any) -> Expr:
        from .arith import cast

        return cast(value, self.dtype)


def prim_func(
    func: Callable[..., Any] | None = None, private: bool = False, check_well_formed: bool = True
) -> Any:
    """Decorator: the kernel written as the body of `func`, traced now.

    `private` and `check_well_formed` exist for compatibility; a kernel is always checked.
    Raises KernelError, with the place in the source, for what the language does not have.
    """
    __tracebackhide__ = True
    if func is None:
        return lambda inner: prim_func(inner, private, check_well_formed)
    try:
        return _traced(func, sys._getframe(1).f_locals)
    except KernelError as error:
        raise error.with_traceback(None) from None


def _traced(func: Callable[..., Any], outer: dict[str, Any]) -> PrimFunc:
    source = read(func)
    names = visible_names(func)
    loc = source.loc(source.node)
    build = builder.Builder(func.__name__, loc)
    with builder.trace(build), builder.at(loc):
        params = _params(func, source, {**outer, **names})
        for param in params:
            names[param.name] = param.buffer or param.var
        Frontend(source, names).run()
    if build.head is None:
        raise KernelError("a kernel needs 'with T.Kernel(...)'", loc)
    head = build.head
    symbols = _symbols(params)
    grid: Dim = head.grid  # type: ignore[assignment]
    return PrimFunc(
        func.__name__, params, symbols, grid, head.cid, head.vid, head.threads, build.body, loc,
        source.text,
    )  # fmt: skip


def _params(func: Callable[..., Any], source: Source, names: dict[str, Any]) -> list[Param]:
    params = []
    for arg in source.node.args.args:
        with placed(source.loc(arg)):
            spec = func.__annotations__.get(arg.arg)
            if isinstance(spec, str) and not isinstance(spec, ScalarType):
                spec = eval(spec, names)
            params.append(_param(arg.arg, spec))
    return params


def _param(name: str, spec: Any) -> Param:
    if isinstance(spec, TensorSpec):
        return Param(name, buffer=Buffer(name, spec.shape, spec.dtype, "gm"))
    if isinstance(spec, ScalarType):
        return Param(name, var=Var(name, spec.dtype))
    raise KernelError(
        f"parameter {name} needs T.Tensor(shape, dtype) or a scalar type such as T.int32"
    )


def _symbols(params: list[Param]) -> list[Var]:
    """The symbolic dimensions in the parameters' shapes, in order of appearance."""
    found: dict[Var, None] = {}
    scalars = {param.var for param in params}

    def visit(dim: Dim) -> None:
        if isinstance(dim, Var) and dim not in scalars:
            found.setdefault(dim)
        elif isinstance(dim, Expr):
            for part in operands(dim):
                visit(part)

    for param in params:
        for dim in param.buffer.shape if param.buffer else ():
            visit(dim)
    return list(found)
