"""Compiles generated C++ with the host's compiler."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from softnpu import layout, versions

from . import cache
from .emit.module import Module
from .errors import CompileError

# -ffp-contract=off: a product and a sum are rounded apart, as written. No option may reorder or
# approximate floating-point arithmetic; the three -fno- ones only drop errno, traps and aliasing
# assumptions. Integers wrap.
FLAGS = [
    "-std=c++20", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing", "-fvisibility=hidden", "-fPIC",
    "-shared",
]  # fmt: skip


def compile_module(module: Module, extra_flags: tuple[str, ...] = ()) -> bytes:
    """The shared object of `module`.

    Raises CompileError if there is no compiler, or if it refuses the generated source.
    """
    command, version = _compiler(os.environ.get("CXX") or "")
    flags = [*FLAGS, *extra_flags]
    if os.environ.get("SOFTNPU_POISON_UB") == "1":
        flags.append("-DSN_POISON_UB")
    name = cache.key(module.source, f"{command} {version}", flags)
    found = cache.load(name)
    if found is None:
        found = _run(command, flags, module)
        cache.save(name, found)
    return found


@lru_cache(maxsize=4)
def _compiler(chosen: str) -> tuple[str, str]:
    found = versions.compiler()
    if found.problem is not None or found.version is None:
        raise CompileError(f"kernels need a C++ compiler: {found.problem}")
    return found.command, found.version


def _run(command: str, flags: list[str], module: Module) -> bytes:
    with tempfile.TemporaryDirectory(prefix="softnpu-") as place:
        source, target = Path(place, f"{module.name}.cpp"), Path(place, f"{module.name}.so")
        source.write_text(module.source)
        include = f"-I{layout.kernel_include_dir()}"
        done = subprocess.run(
            [command, *flags, include, str(source), "-o", str(target)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise CompileError(_explain(command, module, done.stderr))
        return target.read_bytes()


def _explain(command: str, module: Module, text: str) -> str:
    kept = Path(tempfile.mkdtemp(prefix="softnpu-refused-"), f"{module.name}.cpp")
    kept.write_text(module.source)
    first = next((line for line in text.splitlines() if "error" in line), text.strip())
    return (
        f"{command} refused the code that was generated from kernel {module.name}, which is a "
        f"defect of softnpu; the code is kept in {kept}; first error: {first}"
    )
