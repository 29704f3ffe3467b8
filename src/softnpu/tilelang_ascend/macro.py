"""`T.macro`: functions whose body is inlined where they are called in a kernel."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import builder
from .errors import KernelError
from .source import Source, read, visible_names

if TYPE_CHECKING:
    from .frontend import Frontend


class Macro:
    """A function of the kernel language; arguments may be buffers, slices, scalars, Python values.

    Its names are those of its definition (hygienic); what it binds is its own.
    """

    def __init__(
        self, source: Source, signature: inspect.Signature, names: Callable[[], dict[str, Any]]
    ) -> None:
        self.source, self.signature, self.names = source, signature, names
        self.__name__ = source.node.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .frontend import Frontend, Return

        if not builder.tracing():
            raise KernelError(f"the macro {self.__name__} can only be called inside a kernel")
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        visitor = Frontend(self.source, {**self.names(), **bound.arguments}, is_macro=True)
        try:
            visitor.run()
        except Return as result:
            return result.value
        return None


def macro(func: Callable[..., Any] | None = None, *, hygienic: bool = True) -> Any:
    """Decorator of a macro. `hygienic=False` is not supported: names would change their meaning."""
    if not hygienic:
        raise KernelError("T.macro(hygienic=False) is not supported")
    if func is None:
        return macro
    return Macro(read(func), inspect.signature(func), lambda: visible_names(func))


def nested_macro(node: ast.FunctionDef, visitor: Frontend) -> Macro:
    """A macro that is defined inside a kernel and sees the kernel's names."""
    decorators = [visitor.eval(part) for part in node.decorator_list]
    if decorators != [macro]:
        raise KernelError("a function inside a kernel must be decorated with @T.macro")
    if node.args.defaults or node.args.kwonlyargs or node.args.vararg or node.args.kwarg:
        raise KernelError("a macro inside a kernel takes plain positional parameters only")
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(a.arg, kind) for a in node.args.args])
    inner = Source(node, visitor.source.file, visitor.source.text)
    return Macro(inner, signature, lambda: dict(visitor.names))
