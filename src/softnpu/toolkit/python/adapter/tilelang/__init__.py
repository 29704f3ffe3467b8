"""The TileLang-Ascend dialect's `tilelang`, as softnpu implements it."""

from typing import Any

from softnpu.tilelang_ascend import errors
from softnpu.tilelang_ascend.cache import disable as disable_cache
from softnpu.tilelang_ascend.cache import enable as enable_cache
from softnpu.tilelang_ascend.cache import is_enabled as is_cache_enabled
from softnpu.tilelang_ascend.dtypes import DataType
from softnpu.tilelang_ascend.jit import PassConfigKey, compile, jit
from softnpu.tilelang_ascend.kernel import JITKernel
from softnpu.tilelang_ascend.language.scalar import ceildiv as cdiv

from . import cache, language, math

__version__ = "0.1.4"
__all__ = [
    "DataType", "JITKernel", "PassConfigKey", "cache", "cdiv", "compile", "disable_cache",
    "enable_cache", "is_cache_enabled", "jit", "language", "math",
]  # fmt: skip

errors.install_hook()


def __getattr__(name: str) -> Any:
    raise AttributeError(f"tilelang.{name} is not supported by softnpu's TileLang-Ascend")
