"""What a user sees when a kernel is wrong: one message with the place in the Python source."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True)
class Loc:
    """A place in the user's Python source; `line` and `col` count from 1."""

    file: str
    line: int
    col: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"

    @property
    def short(self) -> str:
        """As `str`, without the folders: what a device-side fault carries."""
        return f"{Path(self.file).name}:{self.line}:{self.col}"


class KernelError(ValueError):
    """A kernel that cannot be parsed, checked, compiled or launched as written."""

    def __init__(self, message: str, loc: Loc | None = None) -> None:
        self.message = message
        self.loc = loc
        super().__init__(self._text())

    def at(self, loc: Loc | None) -> KernelError:
        """The same error, placed at `loc` unless it already has a place."""
        return self if self.loc is not None or loc is None else type(self)(self.message, loc)

    def _text(self) -> str:
        if self.loc is None:
            return self.message
        source = linecache.getline(self.loc.file, self.loc.line).rstrip("\n").expandtabs(1)
        caret = " " * (self.loc.col - 1) + "^"
        return f"{self.loc}: {self.message}\n    {source}\n    {caret}"


class KernelWarning(UserWarning):
    """A kernel that runs, but does on the device something else than it seems to say."""


class CompileError(KernelError):
    """The host's C++ compiler is missing or refused the generated source."""


class LaunchError(KernelError):
    """A kernel called with arguments that do not fit its parameters."""


class DeviceError(KernelError, RuntimeError):
    """The device's runtime refused to load or launch a kernel."""


_PACKAGE = str(Path(__file__).resolve().parent)


def _is_ours(frame_file: str) -> bool:
    return frame_file.startswith(_PACKAGE)


def install_hook() -> None:
    """Make an uncaught `KernelError` print the user's frames and the message, nothing of ours."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, KernelError):
            previous(kind, error, trace)
            return
        while trace is not None:
            code = trace.tb_frame.f_code
            if not _is_ours(code.co_filename):
                place = f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}'
                print(place, file=sys.stderr)
            trace = trace.tb_next
        print(f"{kind.__name__}: {error}", file=sys.stderr)

    sys.excepthook = hook
