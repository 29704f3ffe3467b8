"""Constants and names in C++."""

from __future__ import annotations

import math
import struct
from typing import Any

from ..dtypes import DType
from ..ir import Const


def literal(const: Const) -> str:
    """The constant as a C++ expression of its type's value type."""
    return number(const.value, const.dtype)


def number(value: Any, dtype: DType) -> str:
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.is_float:
        return _float(float(value), dtype)
    value = int(value)
    if dtype.bits == 64:
        if value == -(2**63):
            return "INT64_MIN"
        return f"INT64_C({value})" if dtype.kind == "i" else f"UINT64_C({value})"
    if dtype.name == "int32":
        return "INT32_MIN" if value == -(2**31) else str(value)
    return f"static_cast<{dtype.cpp}>({value})" if dtype.bits < 32 else f"UINT32_C({value})"


def _float(value: float, dtype: DType) -> str:
    if math.isnan(value):
        return f"static_cast<{dtype.value}>(NAN)"
    rounded = round_to(value, dtype)
    if math.isinf(rounded):
        sign = "-" if rounded < 0 else ""
        return f"{sign}static_cast<{dtype.value}>(INFINITY)"
    suffix = "" if dtype.name == "float64" else "f"
    text = rounded.hex() + suffix
    return f"({text})" if rounded < 0 else text


def round_to(value: float, dtype: DType) -> float:
    """`value` rounded to nearest even in a float type; too large becomes infinite."""
    if dtype.name == "float64" or math.isinf(value):
        return value
    try:
        if dtype.name == "float16":
            return float(struct.unpack("<e", struct.pack("<e", value))[0])
        single = float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
    if dtype.name == "float32":
        return single
    bits = struct.unpack("<I", struct.pack("<f", single))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])


def quoted(text: str) -> str:
    """`text` as a C string literal."""
    out = []
    for char in text:
        code = ord(char)
        if char in '"\\?':
            out.append("\\" + char)
        elif 32 <= code < 127:
            out.append(char)
        else:
            out += [f"\\{byte:03o}" for byte in char.encode()]
    return '"' + "".join(out) + '"'


class Names:
    """C++ identifiers of IR objects: the Python name, made distinct."""

    def __init__(self) -> None:
        self.by_object: dict[int, str] = {}
        self.kept: list[object] = []
        self.used: dict[str, int] = {}

    def of(self, prefix: str, thing: Any) -> str:
        """The identifier of `thing` (an object with a `name`), the same at every call."""
        found = self.by_object.get(id(thing))
        if found is None:
            base = prefix + "".join(c if c.isascii() and c.isalnum() else "_" for c in thing.name)
            count = self.used.get(base, 0)
            self.used[base] = count + 1
            found = f"{base}__{count}" if count else base
            self.by_object[id(thing)] = found
            self.kept.append(thing)  # an id is only unique while its object lives
        return found


class Places:
    """The table of source places that faults refer to by number."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]

    def of(self, loc: Any) -> int:
        text = loc.short if loc is not None else ""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)
