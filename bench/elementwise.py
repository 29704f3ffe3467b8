"""Six element-wise operators on [16, 512] fp32: replay of a graph against CPU PyTorch eager."""

import torch
from timing import Row, compare

OPS = 6
REPLAYS = 300  # per synchronise


def six(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = x + y
    b = a * x
    c = b - y
    d = torch.relu(c)
    e = torch.maximum(d, x)
    return e * y


def measure() -> list[Row]:
    torch.manual_seed(0)
    cpu = [torch.randn(16, 512) for _ in range(2)]
    npu = [tensor.npu() for tensor in cpu]
    six(*npu)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        output = six(*npu)

    def replay() -> None:
        for _ in range(REPLAYS):
            graph.replay()
        torch.npu.synchronize()

    def eager() -> None:
        for _ in range(REPLAYS):
            six(*cpu)

    def eager_npu() -> None:
        for _ in range(REPLAYS):
            six(*npu)
        torch.npu.synchronize()

    replay()
    assert torch.equal(output.cpu(), six(*cpu))
    units = REPLAYS * OPS
    replayed, plain = compare(replay, eager, units, units)
    dispatched, plain_again = compare(eager_npu, eager, units, units)
    return [
        Row("six element-wise ops [16, 512] fp32, replay", replayed, plain, 0.75),
        Row("the same, eager through torch_npu", dispatched, plain_again, None),
    ]
