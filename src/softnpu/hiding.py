"""A libsoftnpu_runtime.so that lacks some functions, as the library of an older CANN does.

torch_npu looks optional functions up by name and takes an older path where one is missing. The copy
differs from the built library in the names of the hidden functions alone: no look-up finds them.
"""

import hashlib
import os
import struct
import tempfile
from pathlib import Path

from softnpu import acltable, layout
from softnpu.errors import SettingError, UserError

VARIABLE = "SOFTNPU_HIDE"
_LIBRARY = "libsoftnpu_runtime.so"
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")  # of a 64-bit ELF file
_SHT_STRTAB, _SHT_DYNSYM = 3, 11


def check(variable: str, text: str) -> None:
    """Raises SettingError unless `text` is a comma-separated list of functions that exist."""
    known = {f.name for f in acltable.load() if f.exported and not f.in_ops}
    for name in names(text):
        if name not in known:
            raise SettingError(f"{variable}={text}: the library has no function {name}")


def names(text: str) -> list[str]:
    """The functions in a comma-separated list."""
    return sorted({name.strip() for name in text.split(",") if name.strip()})


def library_folder(hidden: list[str]) -> Path:
    """The folder with a library that lacks these functions; it belongs before lib_dir().

    It is made once per library and list, in the user's cache folder or SOFTNPU_CACHE_DIR.
    """
    built = (layout.lib_dir() / _LIBRARY).read_bytes()
    key = hashlib.sha256(built + ",".join(hidden).encode()).hexdigest()[:24]
    folder = _cache_folder() / f"hidden-{key}"
    if not (folder / _LIBRARY).exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(_without(built, hidden))
        os.replace(temporary, folder / _LIBRARY)
    return folder


def _cache_folder() -> Path:
    chosen = os.environ.get("SOFTNPU_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(chosen or os.path.join(base, "softnpu")).expanduser()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise UserError(
            f"{folder} belongs to or can be written by other users, who could put code there: give "
            "SOFTNPU_CACHE_DIR a folder of your own"
        )
    return folder


def _dynamic_strings(library: bytes) -> tuple[int, int]:
    """Offset and size of the names that the dynamic linker sees."""
    (table,) = struct.unpack_from("<Q", library, 0x28)
    size, count = struct.unpack_from("<HH", library, 0x3A)
    headers = [_SECTION_HEADER.unpack_from(library, table + i * size) for i in range(count)]
    symbols = next(header for header in headers if header[1] == _SHT_DYNSYM)
    strings = headers[symbols[6]]
    assert strings[1] == _SHT_STRTAB
    return strings[4], strings[5]


def _without(library: bytes, hidden: list[str]) -> bytes:
    """The library with these names spoilt: with another hash, no look-up finds them."""
    start, size = _dynamic_strings(library)
    changed = bytearray(library)
    for name in hidden:
        entry = b"\0" + name.encode() + b"\0"
        at = library.find(entry, start, start + size)
        if at < 0:
            raise UserError(f"{layout.lib_dir() / _LIBRARY} has no function {name} to hide")
        changed[at + 1] = ord("-")
    return bytes(changed)
