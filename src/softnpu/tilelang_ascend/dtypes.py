"""The dialect's scalar types: names, sizes and what they are called in C++ and in torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DType:
    """One scalar type. `cpp` is how it is stored, `value` the C++ type it is computed in."""

    name: str
    bits: int
    kind: str  # "f" float, "i" signed, "u" unsigned, "b" bool
    cpp: str
    value: str

    @property
    def bytes(self) -> int:
        return max(self.bits // 8, 1)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def torch_name(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name


_ROWS = [
    DType("float64", 64, "f", "double", "double"),
    DType("float32", 32, "f", "float", "float"),
    DType("float16", 16, "f", "sn::half", "float"),
    DType("bfloat16", 16, "f", "sn::bf16", "float"),
    DType("int8", 8, "i", "int8_t", "int8_t"),
    DType("int16", 16, "i", "int16_t", "int16_t"),
    DType("int32", 32, "i", "int32_t", "int32_t"),
    DType("int64", 64, "i", "int64_t", "int64_t"),
    DType("uint8", 8, "u", "uint8_t", "uint8_t"),
    DType("uint16", 16, "u", "uint16_t", "uint16_t"),
    DType("uint32", 32, "u", "uint32_t", "uint32_t"),
    DType("uint64", 64, "u", "uint64_t", "uint64_t"),
    DType("bool", 1, "b", "uint8_t", "bool"),
]
DTYPES = {row.name: row for row in _ROWS}

_ALIASES = {"float": "float32", "half": "float16", "double": "float64", "int": "int32"}
# `T.reinterpretcast` names its type as the C++ kernel language does.
_C_ALIASES = {
    **{f"{name}_t": name for name in DTYPES if name[0] in "iu"},
    "half": "float16",
    "bfloat16_t": "bfloat16",
    "float": "float32",
}


def dtype_of(name: object) -> DType:
    """The type called `name` (a dialect name, or a torch dtype).

    Raises ValueError for a type that this dialect does not have.
    """
    text = str(name).removeprefix("torch.")
    found = DTYPES.get(_ALIASES.get(text, text))
    if found is None:
        raise ValueError(f"unknown dtype {text!r}; known: {', '.join(DTYPES)}")
    return found


def dtype_of_c_name(name: str) -> DType:
    """The type that the C++ kernel language calls `name`, such as "uint32_t"."""
    if name not in _C_ALIASES:
        known = ", ".join(sorted(_C_ALIASES))
        raise ValueError(f"unknown C type {name!r}; known: {known}")
    return DTYPES[_C_ALIASES[name]]


F32 = DTYPES["float32"]
F16 = DTYPES["float16"]
I32 = DTYPES["int32"]
I64 = DTYPES["int64"]
BOOL = DTYPES["bool"]


class DataType(str):
    """A dtype name with its size: `DataType("float16").bits` is 16."""

    @property
    def bits(self) -> int:
        return dtype_of(self).bits

    @property
    def itemsize(self) -> int:
        return dtype_of(self).bytes
