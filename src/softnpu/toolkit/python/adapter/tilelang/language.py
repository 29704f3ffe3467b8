"""`import tilelang.language as T`."""

from softnpu.tilelang_ascend.language import *  # noqa: F403
from softnpu.tilelang_ascend.language import __getattr__ as __getattr__
