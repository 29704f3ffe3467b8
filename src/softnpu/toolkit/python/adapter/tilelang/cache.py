"""`tilelang.cache`: the compiled kernels on disk."""

from softnpu.tilelang_ascend.cache import clear as clear_cache

__all__ = ["clear_cache"]
