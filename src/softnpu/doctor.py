"""What `softnpu doctor` finds out: versions, settings, the chip, the libraries, and a trial run."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from softnpu import __version__, env, layout, settings, socs, standins, versions
from softnpu.errors import SettingError, UserError

_GLIBC_MINIMUM = (2, 28)
_TRIAL_SECONDS = 180
_TRIAL = """
import torch, torch_npu
x = torch.ones(4, device="npu") + 1
assert x.cpu().tolist() == [2.0] * 4
print(torch.npu.device_count(), "x", torch.npu.get_device_name(0), flush=True)
"""


@dataclass(frozen=True)
class Finding:
    """One line of the report: `problem` is None, or what is wrong and how to mend it."""

    section: str
    name: str
    value: str
    problem: str | None = None


def examine(trial: bool) -> Iterator[Finding]:
    """Every finding, in the report's order. `trial` adds a run of torch_npu, some seconds long."""
    before = [*_machine(), *_packages(), *_settings(), *_soc(), *_libraries()]
    yield from before
    if trial:
        broken = any(finding.problem for finding in before)
        skipped = Finding("device", "trial run", "not tried: see the problems above")
        yield skipped if broken else _trial()


def _machine() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.machine()}"
    wrong = None if system == "Linux x86_64" else f"{system}: softnpu runs on Linux x86_64 only"
    yield Finding("versions", "machine", system, wrong)
    name, version = platform.libc_ver()
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    wrong = None
    if name != "glibc" or parts < _GLIBC_MINIMUM:
        wrong = f"{name or 'no glibc'} {version}: glibc 2.28 or newer is needed"
    yield Finding("versions", "libc", f"{name} {version}", wrong)
    python = platform.python_version()
    wrong = None
    if sys.version_info[:2] != (3, 11):
        wrong = f"Python {python}: CPython 3.11 is needed (torch_npu's wheel is for one version)"
    yield Finding("versions", "python", f"{python} ({sys.executable})", wrong)


def _packages() -> Iterator[Finding]:
    yield Finding("versions", "softnpu", f"{__version__} ({layout.package_dir()})")
    for package in versions.PACKAGES:
        found = versions.installed(package) or "missing"
        yield Finding("versions", package.name, found, versions.problem(package))
    compiler = versions.compiler()
    name = os.path.basename(compiler.command)
    yield Finding("versions", name, compiler.version or "missing", compiler.problem)


def _settings() -> Iterator[Finding]:
    for value in settings.read(os.environ):
        problem = None
        try:
            settings.check(value)
        except SettingError as error:
            problem = str(error)
        text = "unset" if value.text is None else value.text or "(empty)"
        name = value.setting.variable
        shown = f"{text}  [{value.source}] {value.setting.what}"
        yield Finding("settings", name, shown, problem)


def _soc() -> Iterator[Finding]:
    name = os.environ.get("SOFTNPU_SOC") or settings.DEFAULT_SOC
    soc = socs.load().get(name)
    if soc is None:
        return  # the settings have said so
    yield Finding("soc", "name", f"{soc.name} ({soc.family}, __NPU_ARCH__ {soc.npu_arch})")
    yield Finding("soc", "cores", f"{soc.aic} AIC, {soc.aiv} AIV")
    yield Finding("soc", "HBM", f"{soc.hbm >> 30} GiB")
    yield Finding("soc", "L2", f"{soc.l2 >> 20} MiB")
    yield Finding("soc", "UB, L1", f"{soc.ub} ({soc.ub_usable} usable), {soc.l1} bytes")
    yield Finding("soc", "L0A, L0B, L0C", f"{soc.l0a}, {soc.l0b}, {soc.l0c} bytes")
    yield Finding("soc", "figures", soc.src)


def _libraries() -> Iterator[Finding]:
    try:
        layout.require_toolkit()
    except UserError as error:
        yield Finding("libraries", "toolkit", "not built", str(error))
        return
    yield Finding("libraries", "toolkit", str(layout.toolkit_dir()))
    provided, absent = standins.load()
    names = ["libsoftnpu_runtime.so", "libsoftnpu_ops.so", *(lib.soname for lib in provided)]
    for soname in names:
        found = (layout.lib_dir() / soname).exists()
        problem = None if found else f"{soname} is missing in {layout.lib_dir()}: build again"
        yield Finding("libraries", soname, "found" if found else "missing", problem)
    for library in absent:
        yield Finding("libraries", library.soname, f"left out: {library.why}")


def _trial() -> Finding:
    """Runs one operator through torch_npu in a process of its own."""
    environment = {**os.environ, **env.changes(os.environ, adapter=True)}
    argv = [sys.executable, "-c", _TRIAL]
    try:
        done = subprocess.run(
            argv,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        problem = f"torch_npu did not finish one addition in {_TRIAL_SECONDS} s"
        return Finding("device", "trial run", "hangs", problem)
    if done.returncode != 0:
        cause = _cause(done.stderr) or f"exit code {done.returncode}"
        problem = f"torch_npu can't add two numbers on the device: {cause}"
        return Finding("device", "trial run", "failed", problem)
    return Finding("device", "trial run", f"1 + 1 = 2 on {done.stdout.strip().splitlines()[-1]}")


def _cause(stderr: str) -> str | None:
    """The first exception that Python reports, which is what caused those after it."""
    lines = stderr.strip().splitlines()
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    return next(iter(errors or lines[-1:]), None)
