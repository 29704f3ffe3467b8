"""Random operators in a captured graph: each replay draws what the same eager call would draw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_npu  # noqa: F401

Draw = Callable[[], torch.Tensor]
DRAWS: dict[str, Draw] = {
    "randn": lambda: torch.randn(50, device="npu"),
    "rand": lambda: torch.rand(50, device="npu"),
    "randint": lambda: torch.randint(0, 1000, (50,), device="npu"),
    "uniform_": lambda: torch.empty(50, device="npu").uniform_(-1, 1),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(500, device="npu"), 0.5),
    "multinomial": lambda: torch.multinomial(torch.ones(50, device="npu"), 20),
}


@pytest.mark.parametrize("name", DRAWS)
def test_replays_draw_what_eager_calls_draw(name: str) -> None:
    draw = DRAWS[name]
    torch.npu.manual_seed(5)
    eager = [draw().cpu() for _ in range(3)]
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        captured = draw()
    torch.npu.manual_seed(5)
    replayed = []
    for _ in range(3):
        graph.replay()
        replayed.append(captured.cpu().clone())
    assert all(torch.equal(a, b) for a, b in zip(eager, replayed, strict=True))
    assert not torch.equal(replayed[0], replayed[1])
