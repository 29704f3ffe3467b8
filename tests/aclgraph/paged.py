"""A small paged decode step, and batches for it, shared by the tests."""

import torch

from aclgraph import DecodeRunner, Dispatcher, GraphMode, default_sizes, inputs

VOCAB, HIDDEN, BLOCK, BLOCKS, WIDTH = 32, 16, 4, 12, 3


class PagedStep(torch.nn.Module):
    """One attention layer over a paged cache; block 0 takes the writes of padded rows."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def weight(*shape):
            return torch.nn.Parameter(
                torch.randn(*shape, generator=generator).npu(), requires_grad=False
            )

        self.embed = weight(VOCAB, HIDDEN)
        self.q, self.k, self.v = (weight(HIDDEN, HIDDEN) for _ in range(3))
        self.out = weight(HIDDEN, VOCAB)
        cache = torch.randn(2, BLOCKS * BLOCK, HIDDEN, generator=generator)
        self.register_buffer("k_cache", cache[0].npu())
        self.register_buffer("v_cache", cache[1].npu())
        self.register_buffer("places", torch.arange(WIDTH * BLOCK).npu())

    def slots(self, slot_mapping):
        return slot_mapping.clamp(min=0).long()

    def forward(self, tokens, positions, slot_mapping, block_table, seq_lens):
        x = self.embed.index_select(0, tokens) + positions[:, None] * 0.01
        slots = self.slots(slot_mapping)
        self.k_cache.index_copy_(0, slots, x @ self.k)
        self.v_cache.index_copy_(0, slots, x @ self.v)
        rows = (block_table[:, :, None] * BLOCK + self.places[:BLOCK]).flatten(1).long()
        reqs = rows.shape[0]
        keys = self.k_cache.index_select(0, rows.flatten()).view(reqs, -1, HIDDEN)
        values = self.v_cache.index_select(0, rows.flatten()).view(reqs, -1, HIDDEN)
        scores = torch.bmm((x @ self.q).view(reqs, -1, HIDDEN), keys.transpose(1, 2))
        hidden = self.places >= seq_lens[:, None, None]
        weights = torch.softmax(scores.masked_fill(hidden, -1e9), dim=-1)
        return torch.bmm(weights, values).view(-1, HIDDEN) @ self.out


INPUTS = (
    inputs.tokens(),
    inputs.positions(),
    inputs.slot_mapping(),
    inputs.block_table(WIDTH),
    inputs.seq_lens(),
)


def batch(requests, seed=0, query_len=1):
    """`requests` requests of random lengths; their blocks are 1 .. BLOCKS - 1, two may share."""
    generator = torch.Generator().manual_seed(seed)
    count = requests * query_len
    lens = torch.randint(query_len, WIDTH * BLOCK + 1, (requests,), generator=generator)
    table = torch.randint(1, BLOCKS, (requests, WIDTH), generator=generator)
    slots = torch.randperm((BLOCKS - 1) * BLOCK, generator=generator)[:count] + BLOCK
    return {
        "tokens": torch.randint(0, VOCAB, (count,), generator=generator).npu(),
        "positions": torch.randint(0, 9, (count,), generator=generator).npu(),
        "slot_mapping": slots.int().npu(),
        "block_table": table.int().npu(),
        "seq_lens": lens.int().npu(),
    }


# What of the caches counts: block 0 is where padded rows write.
BEYOND_BLOCK_0 = {
    f"{owner}.{name}": lambda cache: cache[BLOCK:]
    for name in ("k_cache", "v_cache")
    for owner in ("PagedStep", "Broken")
}


def dispatcher(max_num_seqs=8, query_len=1, mode=GraphMode.FULL_DECODE_ONLY):
    return Dispatcher(mode, default_sizes(max_num_seqs, query_len=query_len), max_num_seqs)


def captured(step, specs=INPUTS, **options):
    """A runner of `step` that has captured sizes 1, 2, 4, 8."""
    runner = DecodeRunner(step, options.pop("dispatcher", None) or dispatcher(), specs, **options)
    runner.capture()
    return runner
