"""Calls the C interface through ctypes, with types taken from the table. No torch.

Everything runs on device 1, so that a test session that also uses torch_npu keeps device 0.
"""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from softnpu import acltable

DEVICE = 1

# ACL's numbers, as tests name them.
OK = 0
INVALID_PARAM = 100000
API_NOT_SUPPORTED = 200001
FEATURE_UNSUPPORTED = 200006
RT_PARAM_INVALID = 107000
RT_INVALID_DEVICE = 107001
RT_CONTEXT_NULL = 107002
RT_INVALID_HANDLE = 107017
RT_ARRAY_TOO_SHORT = 107039
RT_MEMORY_ALLOCATION = 207001

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)

_HANDLES = re.compile(r"aclrt(Stream|Event|Context|TaskGrp|BinHandle|FuncHandle|DrvMemHandle|Host"
                      r"Func|Callback)|aclmdlRI|aclmdlRICondHandle|HcclComm|LcalCommPtr|rtStream_t|"
                      r"ProfCommandHandle|VOID_PTR")  # fmt: skip
_NUMBERS: dict[str, Any] = {
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_uint64,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "uint16_t": ctypes.c_uint16,
    "uint8_t": ctypes.c_uint8,
    "float": ctypes.c_float,
}


def c_type(parameter: str) -> Any:
    """The ctypes type of one parameter of a signature; enumerations are int."""
    if "*" in parameter or "[" in parameter:
        return ctypes.c_void_p
    words = [word for word in parameter.split() if word not in ("const", "struct")]
    if _HANDLES.fullmatch(words[0]):
        return ctypes.c_void_p
    if words[0] == "aclrtIpcEventHandle":
        return ctypes.c_char * 64
    return _NUMBERS.get(words[0], ctypes.c_int32)


def result_type(function: acltable.Function) -> Any:
    """The ctypes type of a function's result."""
    if function.result == "void":
        return None
    if function.result == "const char*":
        return ctypes.c_char_p
    return c_type(function.result)


class Acl:
    """The library's functions as attributes; each returns what the C function returns."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.functions = {f.name: f for f in acltable.load() if f.exported and not f.in_ops}

    def __getattr__(self, name: str) -> Any:
        function = self.functions[name]
        call = self.library[name]
        parameters = re.search(r"\w+\((.*)\)", function.signature)
        assert parameters is not None
        types = [c_type(text) for text in parameters[1].split(",") if text.strip()]
        if "..." not in function.signature:
            call.argtypes = types
        call.restype = result_type(function)
        setattr(self, name, call)
        return call

    def message(self) -> str:
        """The recent-error text of this thread."""
        text = self.aclGetRecentErrMsg()
        return text.decode() if text else ""

    def check(self, number: int) -> None:
        """Fails the test with the library's own words."""
        assert number == OK, f"{number}: {self.message()}"

    def expect(self, number: int, expected: int, *words: str) -> None:
        """The call failed with this number, and its text has these words."""
        assert number == expected, f"{number} instead of {expected}: {self.message()}"
        for word in words:
            assert word in self.message()


def handle_of(create: Callable[..., int], *arguments: Any) -> int:
    """The handle that create(&handle, …) gives."""
    out = ctypes.c_void_p()
    number = create(ctypes.byref(out), *arguments)
    assert number == OK, number
    assert out.value is not None
    return out.value
