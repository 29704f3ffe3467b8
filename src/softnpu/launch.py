"""What `softnpu run` starts, and what has to be true before it may start."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from softnpu import dialect, layout, versions
from softnpu.errors import USAGE, UserError


@dataclass(frozen=True)
class Program:
    """A command line, and the script whose source tells the dialect, if there is one."""

    argv: list[str]
    script: Path | None


def script(path: str, arguments: list[str]) -> Program:
    """A Python script, run by the interpreter that runs softnpu."""
    if not os.path.exists(path):
        hint = ""
        if os.sep not in path and shutil.which(path) is not None:
            hint = f"; to run the command of that name: softnpu run -- {path}"
        raise UserError(f"no such script: {path}{hint}", USAGE)
    main = Path(path) / "__main__.py" if os.path.isdir(path) else Path(path)
    return Program([sys.executable, path, *arguments], main)


def module(name: str, arguments: list[str]) -> Program:
    """A module, as `python -m` runs it. Its source counts when it lies in the current folder."""
    stem = Path(*name.split("."))
    sources = (stem.with_name(stem.name + ".py"), stem / "__main__.py")
    source = next((path for path in sources if path.is_file()), None)
    return Program([sys.executable, "-m", name, *arguments], source)


def command(argv: list[str]) -> Program:
    """Any command."""
    return Program(argv, None)


def check_installation() -> None:
    """Raises UserError unless the packages and the libraries that every program needs exist."""
    for package in (versions.TORCH, versions.TORCH_NPU):
        problem = versions.problem(package)
        if problem is not None:
            raise UserError(problem)
    layout.require_toolkit()


def replace_process(program: Program, environment: dict[str, str]) -> None:
    """Becomes the program; returns never. The program's exit code is then ours."""
    file = shutil.which(program.argv[0], path=environment["PATH"])
    if file is None:
        raise UserError(f"command not found: {program.argv[0]}", 127)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(file, program.argv, environment)
    except OSError as error:
        raise UserError(f"can't start {file}: {error.strerror}", 126) from None


def dialect_of(program: Program, wanted: str) -> dialect.Decision:
    """The dialect to run with: what the user wants, else what the script's source says."""
    if wanted != "auto":
        return dialect.Decision(wanted, False, None)
    if program.script is None:
        return dialect.Decision(dialect.ADAPTER, False, None)
    return dialect.decide(program.script)
