"""What aclgraph's runner costs the host per step, beyond copying the inputs and replaying.

Throughput of many steps of a four-layer stack, all weights watched: `DecodeRunner.run()` against
the same copies and the same replay written out by hand. The clock is that of the host's thread:
its work until all steps are issued, not what the device and others do with the cores meanwhile.
"""

import statistics
import time
from collections.abc import Callable

import torch
from timing import Row

from aclgraph import DecodeRunner, Dispatcher, GraphMode, default_sizes, inputs

STEPS, ROUNDS = 100, 25
HIDDEN, LAYERS, REQUESTS = 64, 4, 13
BUDGET_US = 10.0


class Stack(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Seven weights per layer, as a Llama layer has them.
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleList(torch.nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(7))
            for _ in range(LAYERS)
        )
        self.embed = torch.nn.Parameter(torch.randn(512, HIDDEN))
        self.requires_grad_(False)

    def forward(self, tokens, positions, slot_mapping):
        x = self.embed.index_select(0, tokens) + positions[:, None] + slot_mapping[:, None]
        for layer in self.layers:
            x = layer[0](x)
        return x


def measure() -> list[Row]:
    sizes = default_sizes(16)
    dispatcher = Dispatcher(GraphMode.FULL_DECODE_ONLY, sizes, 16)
    specs = [inputs.tokens(), inputs.positions(), inputs.slot_mapping()]
    runner = DecodeRunner(Stack().npu(), dispatcher, specs)
    runner.capture()
    batch = {
        "tokens": torch.arange(REQUESTS).npu(),
        "positions": torch.arange(REQUESTS).npu(),
        "slot_mapping": torch.arange(REQUESTS).int().npu(),
    }
    decision = dispatcher.lookup(REQUESTS, True)
    graph = runner.graphs[decision.key].graph
    pairs = [(buffer.view(REQUESTS), batch[buffer.name]) for buffer in runner.buffers.all]

    def steps() -> None:
        for _ in range(STEPS):
            runner.run(decision, batch)

    def by_hand() -> None:
        for _ in range(STEPS):
            for static, value in pairs:
                static.copy_(value, True)
            graph.replay()

    ours, bare = issue_times(steps, by_hand)
    watched = len(runner.guard)
    return [
        Row(f"aclgraph: run() with {watched} tensors watched", ours, bare, None, "step", "by hand"),
        Row("aclgraph: its own share", ours - bare, BUDGET_US, 1.0, "step", "10 us"),
    ]


def issue_times(*ways: Callable[[], None]) -> list[float]:
    """Median microseconds of the host's thread per step of each way, in turn."""
    samples: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for way, taken in zip(ways, samples, strict=True):
            torch.npu.synchronize()
            begin = time.thread_time()
            way()
            taken.append((time.thread_time() - begin) * 1e6 / STEPS)
    return [statistics.median(taken) for taken in samples]
