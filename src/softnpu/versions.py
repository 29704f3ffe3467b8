"""The packages that softnpu is made for, and whether they are there."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

GXX_MINIMUM = 12


@dataclass(frozen=True)
class Package:
    """A package at the version that softnpu supports. `needed` is what for."""

    name: str
    version: str
    needed: str


TORCH = Package("torch", "2.13.0", "the operators' arithmetic")
TORCH_NPU = Package("torch_npu", "2.13.0", "the device's Python interface")
TILELANG = Package("tilelang", "0.1.15", "the mainline dialect")
PACKAGES = (TORCH, TORCH_NPU, TILELANG)


def installed(package: Package) -> str | None:
    """The installed version with its local part, such as 2.13.0+cpu; None when not installed."""
    try:
        return importlib.metadata.version(package.name)
    except importlib.metadata.PackageNotFoundError:
        return None


def problem(package: Package) -> str | None:
    """One line on what is wrong with an installed package and how to mend it; None if nothing."""
    found = installed(package)
    remedy = f"pip install {package.name}=={package.version}"
    if package is TORCH:
        remedy += " --index-url https://download.pytorch.org/whl/cpu"
    if found is None:
        return f"{package.name} is not installed: {remedy}"
    if found.partition("+")[0] != package.version:
        return f"{package.name} is {found}, softnpu needs {package.version}: {remedy}"
    if package is TORCH and _is_cuda_build():
        return f"torch is a CUDA build, with which torch_npu aborts: {remedy} --force-reinstall"
    return None


def _is_cuda_build() -> bool:
    """Whether the installed torch brings CUDA's part; its version does not always tell."""
    spec = importlib.util.find_spec(TORCH.name)
    if spec is None or spec.origin is None:
        return False
    return (Path(spec.origin).parent / "lib" / "libtorch_cuda.so").exists()


@dataclass(frozen=True)
class Compiler:
    """The C++ compiler that kernels are compiled with; `version` is None when it is unusable."""

    command: str
    version: str | None
    problem: str | None


def compiler() -> Compiler:
    """Asks $CXX, or g++, for its version."""
    command = os.environ.get("CXX") or "g++"
    remedy = f"install g++ {GXX_MINIMUM} or newer (Debian, Ubuntu: apt install g++)"
    if shutil.which(command) is None:
        return Compiler(command, None, f"no C++ compiler: {command} is not on PATH; {remedy}")
    done = subprocess.run(
        [command, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=False
    )
    version = done.stdout.strip()
    if done.returncode != 0 or not re.match(r"[0-9]+", version):
        return Compiler(command, None, f"{command} does not tell its version; {remedy}")
    if int(version.partition(".")[0]) < GXX_MINIMUM:
        return Compiler(command, version, f"{command} is {version}, too old; {remedy}")
    return Compiler(command, version, None)
