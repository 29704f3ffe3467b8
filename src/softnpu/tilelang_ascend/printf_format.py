"""The format string of `T.printf`: C's conversions, checked against the arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .errors import KernelError
from .ir import Expr

_SPEC = re.compile(r"%(?:%|([-+ #0]*[0-9]*(?:\.[0-9]+)?)(?:hh|h|ll|l|z)?([a-zA-Z]))")
_INTEGER, _FLOAT = "dioxXucp", "feEgGaF"


def conversions(text: str, args: Sequence[Expr | str]) -> tuple[str, list[str]]:
    """The format with every length modifier made `ll`, and the conversion letter per argument.

    Raises KernelError if number or types of the arguments do not fit.
    """
    kinds: list[str] = []

    def convert(match: re.Match[str]) -> str:
        flags, kind = match.group(1), match.group(2)
        if kind is None:
            return match.group(0)
        if len(kinds) == len(args):
            raise KernelError("T.printf: more conversions than arguments")
        _check(kind, args[len(kinds)])
        kinds.append(kind)
        if kind == "p":
            return "0x%llx"
        length = "ll" if kind in _INTEGER and kind != "c" else ""
        return f"%{flags}{length}{kind}"

    widened = _SPEC.sub(convert, text)
    if len(kinds) < len(args):
        raise KernelError("T.printf: more arguments than conversions")
    return widened, kinds


def _check(kind: str, arg: Expr | str) -> None:
    if isinstance(arg, str):
        fits, what = kind == "s", "a string"
    else:
        fits = kind in (_FLOAT if arg.dtype.is_float else _INTEGER)
        what = f"a value of {arg.dtype}"
    if not fits:
        raise KernelError(f"T.printf: %{kind} does not fit {what}")
