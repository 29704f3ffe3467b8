"""Attention in float64, sequence by sequence, and the packing of sequences into layouts.

A batch is a list of sequences, each with ``query`` [heads, q, D], ``key`` [kv_heads, k, D] and
``value`` [kv_heads, k, Dv] on the CPU. What an operator must not read is filled with ``GARBAGE``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

GARBAGE = float("nan")


@dataclass
class Sequence:
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    extra: dict[str, torch.Tensor] = field(default_factory=dict)


def make_batch(
    q_lens: list[int], kv_lens: list[int], heads: int, kv_heads: int, dim: int, dtype: torch.dtype,
    value_dim: int | None = None, seed: int = 0,
) -> list[Sequence]:  # fmt: skip
    torch.manual_seed(seed)
    return [
        Sequence(
            torch.randn(heads, q, dim).to(dtype),
            torch.randn(kv_heads, k, dim).to(dtype),
            torch.randn(kv_heads, k, value_dim or dim).to(dtype),
        )
        for q, k in zip(q_lens, kv_lens, strict=True)
    ]


def visible_keys(
    mode: int, q: int, k: int, pre: int, after: int, mask: torch.Tensor | None
) -> torch.Tensor:
    """[q, k] bools: may query i see key j under this sparse_mode; ``mask`` hides where true."""
    i, j = torch.arange(q)[:, None], torch.arange(k)[None, :]
    seen = torch.ones(q, k, dtype=torch.bool)
    if mode == 2:
        seen = j <= i
    elif mode in (3, 4):
        own = i + k - q
        seen = j <= own if mode == 3 else (own - j <= pre) & (j - own <= after)
    elif mask is not None:
        seen = ~mask[:q, :k].bool()
        if mode == 0:
            seen &= (i - j <= pre) & (j - i <= after)
    return seen


def attention(
    seq: Sequence, scale: float, seen: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """[heads, q, Dv] and the log-sum-exp [heads, q]; rows that see nothing are 0 and +inf.

    ``seq.extra``: ``bias`` [heads, q, k] is added to the scores, ``sink`` [heads] to the sum.
    """
    group = seq.query.shape[0] // seq.key.shape[0]
    key = seq.key.double().repeat_interleave(group, 0)
    value = seq.value.double().repeat_interleave(group, 0)
    scores = scale * (seq.query.double() @ key.transpose(1, 2))
    if "bias" in seq.extra:
        scores = scores + seq.extra["bias"].double()
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    if "sink" in seq.extra:
        sink = seq.extra["sink"].double()[:, None, None].expand(*scores.shape[:2], 1)
        lse = torch.cat([scores, sink], -1).logsumexp(-1)
    else:
        lse = scores.logsumexp(-1)
    blind = (scores == float("-inf")).all(-1)
    weights = (scores - lse[..., None]).exp().masked_fill(blind[..., None], 0.0)
    return weights @ value, lse.masked_fill(blind, float("inf"))


_AXES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "BNSD": lambda x: x,
    "BSND": lambda x: x.transpose(1, 2),
    "BSH": lambda x: x.transpose(1, 2).flatten(2),
    "NBSD": lambda x: x.transpose(0, 1),
}


def pack(parts: list[torch.Tensor], layout: str, size: int | None = None) -> torch.Tensor:
    """Sequences [heads, length, D] as one tensor; ``size``: the padded length."""
    if layout == "TND":
        return torch.cat([p.transpose(0, 1) for p in parts]).contiguous()
    if layout == "NTD":
        return torch.cat(parts, 1).contiguous()
    longest = max(max(p.shape[1] for p in parts), size or 0)
    full = torch.full((len(parts), parts[0].shape[0], longest, parts[0].shape[2]), GARBAGE)
    full = full.to(parts[0].dtype)
    for b, part in enumerate(parts):
        full[b, :, : part.shape[1]] = part
    return _AXES[layout](full).contiguous()


def unpack(tensor: torch.Tensor, layout: str, lens: list[int], heads: int) -> list[torch.Tensor]:
    """The sequences [heads, length, D] of an output; whatever lies beyond them must be zero."""
    if layout in ("TND", "NTD"):
        tensor = tensor.transpose(0, 1) if layout == "TND" else tensor
        return list(tensor.split(lens, 1))
    if layout == "BSH":
        tensor = tensor.unflatten(2, (heads, -1))
    tensor = {"BSH": tensor.transpose(1, 2), "BSND": tensor.transpose(1, 2)}.get(layout, tensor)
    tensor = tensor.transpose(0, 1) if layout == "NBSD" else tensor
    for b, length in enumerate(lens):
        assert (tensor[b, :, length:] == 0).all(), f"rows beyond sequence {b} are not zero"
    return [tensor[b, :, :length] for b, length in enumerate(lens)]


def page(
    parts: list[torch.Tensor], block_size: int, table: torch.Tensor, cache: str
) -> torch.Tensor:
    """A paged cache: BnBsH [blocks, block_size, H] or BnNBsD [blocks, heads, block_size, D]."""
    heads, dim = parts[0].shape[0], parts[0].shape[2]
    full = torch.full((int(table.max()) + 2, heads, block_size, dim), GARBAGE).to(parts[0].dtype)
    for b, part in enumerate(parts):
        for n, chunk in enumerate(part.split(block_size, 1)):
            full[int(table[b, n]), :, : chunk.shape[1]] = chunk
    return full.contiguous() if cache == "BnNBsD" else full.transpose(1, 2).flatten(2).contiguous()


def block_table(kv_lens: list[int], block_size: int) -> torch.Tensor:
    """Blocks in random order; unused entries point to no block."""
    counts = [-(-n // block_size) for n in kv_lens]
    ids = torch.randperm(sum(counts) + 1).tolist()
    table = torch.full((len(kv_lens), max(*counts, 1)), -1, dtype=torch.int32)
    for b, count in enumerate(counts):
        table[b, :count] = torch.tensor([ids.pop() for _ in range(count)], dtype=torch.int32)
    return table
