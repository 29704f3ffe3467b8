"""A Llama-style model with random weights, over a paged KV cache, in plain PyTorch operators."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class ModelConfig:
    """Sizes. Head size is `hidden // heads`; keys and values have `kv_heads` heads."""

    vocab: int = 512
    hidden: int = 128
    layers: int = 4
    heads: int = 8
    kv_heads: int = 4
    intermediate: int = 256
    block_size: int = 16
    num_blocks: int = 64
    max_blocks: int = 6  # per request

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads

    @property
    def max_length(self) -> int:
        return self.block_size * self.max_blocks


class Attention(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        size = config.head_size
        self.qkv = nn.Linear(config.hidden, (config.heads + 2 * config.kv_heads) * size, bias=False)
        self.out = nn.Linear(config.hidden, config.hidden, bias=False)
        slots = config.num_blocks * config.block_size
        self.register_buffer("k_cache", torch.zeros(slots, config.kv_heads, size))
        self.register_buffer("v_cache", torch.zeros(slots, config.kv_heads, size))

    def forward(self, x, cos, sin, slots, context, mask):
        """x [tokens, hidden]; context [requests, places] slots of each request's cache; mask
        [requests, queries, places], True where a query may not look."""
        c = self.config
        sizes = [c.heads * c.head_size, c.kv_heads * c.head_size, c.kv_heads * c.head_size]
        q, k, v = (
            part.reshape(x.shape[0], -1, c.head_size) for part in self.qkv(x).split(sizes, -1)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self.k_cache.index_copy_(0, slots, k)
        self.v_cache.index_copy_(0, slots, v)

        reqs, places = context.shape
        group = c.heads // c.kv_heads
        shape = (reqs, places, c.kv_heads, c.head_size)
        keys = self.k_cache.index_select(0, context.flatten()).view(shape)
        values = self.v_cache.index_select(0, context.flatten()).view(shape)
        q = q.view(reqs, -1, c.kv_heads, group, c.head_size)
        queries = q.shape[1]
        # One batched product per key head: [reqs * kv_heads, queries * group, places].
        q = q.permute(0, 2, 1, 3, 4).reshape(reqs * c.kv_heads, queries * group, c.head_size)
        keys = keys.permute(0, 2, 3, 1).reshape(reqs * c.kv_heads, c.head_size, places)
        values = values.permute(0, 2, 1, 3).reshape(reqs * c.kv_heads, places, c.head_size)
        scores = torch.bmm(q, keys) * c.head_size**-0.5
        scores = scores.view(reqs, c.kv_heads, queries, group, places)
        scores = scores.masked_fill(mask[:, None, :, None, :], -1e9)
        weights = torch.softmax(scores, -1).view(reqs * c.kv_heads, queries * group, places)
        mixed = torch.bmm(weights, values).view(reqs, c.kv_heads, queries, group, c.head_size)
        return self.out(mixed.permute(0, 2, 1, 3, 4).reshape(x.shape[0], c.hidden))


class Layer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.norm = nn.Parameter(torch.ones(config.hidden))
        self.mlp_norm = nn.Parameter(torch.ones(config.hidden))
        self.gate_up = nn.Linear(config.hidden, 2 * config.intermediate, bias=False)
        self.down = nn.Linear(config.intermediate, config.hidden, bias=False)

    def forward(self, x, *rest):
        x = x + self.attention(rms_norm(x, self.norm), *rest)
        gate, up = self.gate_up(rms_norm(x, self.mlp_norm)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class PagedLlama(nn.Module):
    """The step. Cache block 0 belongs to no request: the writes of padded tokens go there."""

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        torch.manual_seed(seed)
        self.embed = nn.Parameter(torch.randn(config.vocab, config.hidden))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.Parameter(torch.ones(config.hidden))
        self.head = nn.Linear(config.hidden, config.vocab, bias=False)
        inverse = 10000.0 ** (-torch.arange(0, config.head_size, 2) / config.head_size)
        angles = torch.arange(config.max_length)[:, None] * inverse
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("places", torch.arange(config.max_length))
        self.requires_grad_(False)

    def forward(self, tokens, positions, slot_mapping, block_table):
        """One step of `requests` requests with the same number of tokens each.

        Args:
            tokens, positions, slot_mapping: [tokens] int64; slot -1 for padding.
            block_table: [requests, max_blocks] int64.

        Returns:
            The next token of every token, [tokens] int64.
        """
        c = self.config
        x = self.embed.index_select(0, tokens)
        cos = self.cos.index_select(0, positions)[:, None]
        sin = self.sin.index_select(0, positions)[:, None]
        slots = slot_mapping.clamp(min=0)
        context = (block_table[:, :, None] * c.block_size + self.places[: c.block_size]).flatten(1)
        mask = self.places > positions.view(block_table.shape[0], -1, 1)
        for layer in self.layers:
            x = layer(x, cos, sin, slots, context, mask)
        return self.head(rms_norm(x, self.norm)).argmax(-1)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def rotate(x, cos, sin):
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)
