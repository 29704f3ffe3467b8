"""Attention in a captured graph: its sequence lengths are host integers, replaced by an update."""

from __future__ import annotations

import pytest
import torch
import torch_npu

HEADS, KV_HEADS, DIM, BLOCK = 16, 4, 128, 128
CAUSAL = torch.triu(torch.ones(2048, 2048, dtype=torch.bool), 1)


class Decode:
    """A batch of four sequences over a paged cache of two blocks each, `layers` attention calls."""

    def __init__(self, version: int, layers: int, layout: str = "TND") -> None:
        torch.manual_seed(3)
        self.version, self.layers, self.layout = version, layers, layout
        shape = {"TND": (4, HEADS, DIM), "BNSD": (4, HEADS, 1, DIM)}[layout]
        self.query = torch.randn(shape).half().npu()
        self.caches = [
            (torch.randn(8, BLOCK, KV_HEADS * DIM).half().npu(),
             torch.randn(8, BLOCK, KV_HEADS * DIM).half().npu())
            for _ in range(layers)
        ]  # fmt: skip
        self.table = torch.randperm(8, dtype=torch.int32).view(4, 2).npu()
        self.mask = CAUSAL.npu()

    def lengths(self, kv: list[int]) -> dict[str, list[int]]:
        names = {1: "actual_seq_lengths_kv", 2: "actual_seq_kvlen"}
        return {names[self.version]: kv}

    def step(self, kv: list[int]) -> torch.Tensor:
        x = self.query
        for key, value in self.caches:
            common = {"block_table": self.table, "block_size": BLOCK, "sparse_mode": 3,
                      "atten_mask": self.mask, "input_layout": self.layout,
                      "num_key_value_heads": KV_HEADS}  # fmt: skip
            common |= self.lengths(kv)
            if self.version == 1:
                out, _ = torch_npu.npu_fused_infer_attention_score(
                    x, key, value, actual_seq_lengths=[1, 2, 3, 4], num_heads=HEADS, scale=0.09,
                    **common,
                )  # fmt: skip
            else:
                out, _ = torch_npu.npu_fused_infer_attention_score_v2(
                    x, key, value, actual_seq_qlen=[1, 2, 3, 4], num_query_heads=HEADS,
                    softmax_scale=0.09, **common,
                )  # fmt: skip
            x = out + x
        return x

    def capture(self, kv: list[int]) -> tuple[torch.npu.NPUGraph, torch.Tensor]:
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, auto_dispatch_capture=True):
            output = self.step(kv)
        return graph, output


STEPS = [[1, 5, 130, 0], [2, 6, 131, 1], [256, 7, 132, 2], [3, 3, 3, 3]]


@pytest.mark.parametrize("layout", ["TND", "BNSD"])
@pytest.mark.parametrize("version", [1, 2])
def test_updated_lengths_equal_eager(version: int, layout: str) -> None:
    decode = Decode(version, layers=3, layout=layout)
    graph, output = decode.capture(STEPS[0])
    for kv in [*STEPS, *STEPS]:
        expected = decode.step(kv).cpu()
        graph.update(cpu_update_input=[decode.lengths(kv)])
        graph.replay()
        assert torch.equal(output.cpu(), expected), kv


def test_update_may_follow_the_replay_that_waits_for_it() -> None:
    """vLLM-Ascend's order: the replay stops at the first attention until its update arrives."""
    decode = Decode(1, layers=2)
    graph, output = decode.capture(STEPS[0])
    for kv in STEPS:
        graph.replay()
        graph.update(cpu_update_input=[decode.lengths(kv)])
        torch.npu.synchronize()
        got = output.cpu()
        assert torch.equal(got, decode.step(kv).cpu()), kv


def test_each_layer_may_get_its_own_lengths() -> None:
    decode = Decode(1, layers=2)
    graph, output = decode.capture(STEPS[0])
    graph.update(cpu_update_input=[decode.lengths(STEPS[1]), decode.lengths(STEPS[1])])
    graph.replay()
    same = output.cpu()
    assert torch.equal(same, decode.step(STEPS[1]).cpu())
    graph.update(cpu_update_input=[decode.lengths(STEPS[1]), decode.lengths(STEPS[2])])
    graph.replay()
    assert not torch.equal(output.cpu(), same)
    with pytest.raises(RuntimeError, match="there are 2 operators"):
        graph.update(cpu_update_input=[decode.lengths(STEPS[0])] * 3)


def test_lengths_are_baked_without_auto_dispatch() -> None:
    decode = Decode(1, layers=1)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        output = decode.step([4, 4, 4, 4])
    expected = decode.step([4, 4, 4, 4]).cpu()
    graph.replay()
    assert torch.equal(output.cpu(), expected)


def test_a_wrong_length_is_refused_by_the_update() -> None:
    """The message names the parameter; the graph keeps what it had once the update is closed."""
    decode = Decode(1, layers=1)
    graph, output = decode.capture([5, 5, 5, 5])
    graph.update(cpu_update_input=[decode.lengths([6, 6, 6, 6])])
    graph.replay()
    torch.npu.synchronize()
    with pytest.raises(
        RuntimeError, match=r"'actual_seq_lengths_kv'\[2\] is 300, expected 0 to 256"
    ):
        graph.update(cpu_update_input=[decode.lengths([1, 1, 300, 1])])
    stream = graph.graph_dispatch_mode.update_stream
    with pytest.raises(RuntimeError, match="task group update error"):
        torch.npu.graph_task_update_end(stream)
    graph.update(cpu_update_input=[decode.lengths([9, 9, 9, 9])])
    graph.replay()
    assert torch.equal(output.cpu(), decode.step([9, 9, 9, 9]).cpu())


def test_max_workspace_checks_the_call() -> None:
    decode = Decode(1, layers=1)
    key, value = decode.caches[0]
    with pytest.raises(RuntimeError, match="'block_size' is 100"):
        torch_npu._npu_fused_infer_attention_score_get_max_workspace(
            decode.query, key, value, block_table=decode.table, block_size=100, num_heads=HEADS,
            num_key_value_heads=KV_HEADS, input_layout="TND", actual_seq_lengths=[1, 2, 3, 4],
            actual_seq_lengths_kv=[1, 1, 1, 1],
        )  # fmt: skip
