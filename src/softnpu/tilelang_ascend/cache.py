"""Compiled kernels on disk: one shared object per source, compiler, flags, CPU and headers."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import lru_cache
from pathlib import Path

from softnpu import layout

from .errors import CompileError

# A file ends in the SHA-256 of what comes before.
_DIGEST_BYTES = 32

_enabled = True


def enable() -> None:
    """Compiled kernels are kept on disk and taken from there (the default)."""
    global _enabled
    _enabled = True


def disable() -> None:
    """Every kernel is compiled again in each process."""
    global _enabled
    _enabled = False


def is_enabled() -> bool:
    return _enabled


def folder() -> Path:
    """$SOFTNPU_CACHE_DIR, or softnpu/kernels in the user's cache folder."""
    chosen = os.environ.get("SOFTNPU_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "softnpu" / "kernels"


def clear() -> None:
    """Deletes the compiled kernels on disk."""
    for file in folder().glob("*.so"):
        file.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def _machine() -> bytes:
    """The CPU's features: code for one machine may not run on another that shares the home."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    wanted = ("flags", "model name", "Features")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)})).encode()


@lru_cache(maxsize=1)
def _headers() -> bytes:
    digest = hashlib.sha256()
    for file in sorted(layout.kernel_include_dir().glob("*.h")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.digest()


def key(source: str, compiler: str, flags: list[str]) -> str:
    """What a compiled kernel depends on, as a file name."""
    digest = hashlib.sha256()
    for part in (
        source.encode(),
        compiler.encode(),
        "\0".join(flags).encode(),
        _machine(),
        _headers(),
    ):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _checked_folder() -> Path:
    """The cache folder, made if needed.

    Raises CompileError if someone else could write to it: its files are code that is run.
    """
    place = folder()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = place.stat()
    except OSError as error:
        raise CompileError(
            f"the kernel cache {place} can't be used ({error.strerror}): give SOFTNPU_CACHE_DIR a "
            "folder that can be made and written"
        ) from None
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise CompileError(
            f"the kernel cache {place} belongs to or can be written by other users, who could put "
            "code there: give SOFTNPU_CACHE_DIR a folder of your own"
        )
    return place


def load(name: str) -> bytes | None:
    """The compiled kernel of that key, or None; a damaged file counts as none."""
    if not _enabled:
        return None
    file = _checked_folder() / f"{name}.so"
    if not file.exists():
        return None
    stored = file.read_bytes()
    code, digest = stored[:-_DIGEST_BYTES], stored[-_DIGEST_BYTES:]
    return code if code and hashlib.sha256(code).digest() == digest else None


def save(name: str, code: bytes) -> None:
    """Keeps a compiled kernel; a reader sees all of it or nothing."""
    if not _enabled:
        return
    place = _checked_folder()
    handle, temporary = tempfile.mkstemp(dir=place, prefix=name[:16], suffix=".new")
    with os.fdopen(handle, "wb") as file:
        file.write(code + hashlib.sha256(code).digest())
    os.replace(temporary, place / f"{name}.so")
