"""`tilelang.math`: small helpers of host code."""


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


def cdiv(a: int, b: int) -> int:
    """`a / b` rounded up."""
    return -(-a // b)


__all__ = ["cdiv", "next_power_of_2"]
