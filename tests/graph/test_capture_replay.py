"""Capture and replay through the real torch_npu: what a decode loop relies on."""

import json

import pytest
import torch


def captured(body, *args):
    """`body(*args)` as a graph, and its output."""
    body(*args)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        output = body(*args)
    return graph, output


def test_nothing_runs_during_capture():
    x = torch.zeros(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x.add_(1)
    torch.npu.synchronize()
    assert x.tolist() == [0, 0, 0, 0]
    graph.replay()
    assert x.tolist() == [1, 1, 1, 1]


def test_replay_reads_what_the_static_input_holds_now():
    x = torch.arange(8.0).npu()
    graph, y = captured(lambda x: x * 2 + 1, x)
    for value in (3.0, -1.5):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [value * 2 + 1] * 8


def test_host_scalars_are_baked_at_capture():
    x = torch.ones(4, device="npu")
    scale = 2.0
    graph, y = captured(lambda x: x * scale, x)
    scale = 5.0
    graph.replay()
    assert y.tolist() == [2.0] * 4


def test_replays_accumulate_in_order():
    x = torch.zeros(16, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x.mul_(2).add_(1)
    for _ in range(10):
        graph.replay()
    assert x.tolist() == [2**10 - 1] * 16


def test_two_graphs_that_share_a_pool():
    x = torch.ones(8, device="npu")
    first, second = torch.npu.NPUGraph(), torch.npu.NPUGraph()
    with torch.npu.graph(first):
        y = x + 1
    with torch.npu.graph(second, pool=first.pool()):
        z = y * 10
    first.replay()
    second.replay()
    assert z.tolist() == [20.0] * 8


def test_replay_on_another_stream():
    x = torch.zeros(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x.add_(1)
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        graph.replay()
    torch.npu.current_stream().wait_stream(stream)
    assert x.tolist() == [1.0] * 4


def test_fork_and_join_in_a_capture():
    x = torch.full((64,), 3.0, device="npu")
    side = torch.npu.Stream()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        a = x + 1
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            b = a * 2
        c = a * 3
        torch.npu.current_stream().wait_stream(side)
        d = b + c
    x.fill_(1.0)
    graph.replay()
    assert d.tolist() == [10.0] * 64


def test_unjoined_fork_is_named_and_the_next_capture_works():
    x = torch.ones(4, device="npu")
    side = torch.npu.Stream()
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match="107025"), torch.npu.graph(graph):
        y = x + 1
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            y * 2
    graph, y = captured(lambda x: x + 1, x)
    graph.replay()
    assert y.tolist() == [2.0] * 4


def test_item_in_a_capture_is_refused_and_the_next_capture_works():
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match="107027") as raised, torch.npu.graph(graph):
        (x + 1)[0].item()
    assert "Not allowed to synchronize" in str(raised.value)
    graph, y = captured(lambda x: x + 1, x)
    graph.replay()
    assert y.tolist() == [2.0] * 4


def test_default_stream_is_refused():
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()


def test_debug_dump_names_the_operators(tmp_path):
    x = torch.ones(4, device="npu")
    graph, _ = captured(lambda x: (x + 1) * 2, x)
    path = tmp_path / "graph.json"
    graph.debug_dump(str(path))
    names = [event["name"] for event in json.loads(path.read_text())]
    assert [name for name in names if "Add" in name]
    assert [name for name in names if "Mul" in name]


def test_many_replays_equal_eager_bit_for_bit():
    torch.manual_seed(0)
    weight = torch.randn(64, 64).half().npu()

    def step(x):
        return torch.softmax(torch.mm(x, weight).float(), dim=-1).half() + x

    inputs = torch.randn(20, 16, 64).half().npu()
    eager = torch.stack([step(x) for x in inputs])
    static = inputs[0].clone()
    graph, output = captured(step, static)
    replayed = torch.empty_like(eager)
    for i, x in enumerate(inputs):
        static.copy_(x)
        graph.replay()
        replayed[i].copy_(output)
    assert torch.equal(eager.cpu(), replayed.cpu())
