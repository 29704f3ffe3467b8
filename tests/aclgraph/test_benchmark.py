"""The figures are there, told apart, and carry their variables."""

import json

import pytest
import torch

from aclgraph import Batch, ConfigError, bench, simulate, time_step
from tests.aclgraph.paged import PagedStep, batch, captured, dispatcher


@pytest.fixture(scope="module")
def report():
    runner = captured(PagedStep())
    made = bench(runner, 3, batch(3), steps=4, rounds=3, variables={"heads": 1, "hidden": 16})
    assert runner.stats.steps == 0, "measuring is not counted as serving"
    return made


def test_three_figures_and_the_hosts_part(report):
    assert list(report.figures) == [
        "kernel, eager",
        "kernel, replay",
        "host, eager",
        "host, replay",
        "end to end, eager",
        "end to end, replay",
    ]
    for figure in report.figures.values():
        low, high = figure.spread
        assert 0 < low <= figure.median <= high
        assert len(figure.samples) == 3


def test_the_variables_are_reported(report):
    text = str(report)
    for name in ("NPU model", "CANN", "torch_npu", "batch", "bucket", "heads", "hidden"):
        assert name in report.variables and name in text
    assert report.variables["bucket"] == 4 and report.variables["padding"] == 1
    assert ("say nothing about a chip" in text) is report.variables["emulated"]


def test_json_holds_what_the_table_holds(report):
    loaded = json.loads(report.to_json())
    assert loaded["variables"]["NPU model"] == torch.npu.get_device_name(0)
    assert (
        loaded["figures"]["kernel, replay"]["median_us"] == report.figures["kernel, replay"].median
    )


def test_a_batch_without_a_graph_is_refused():
    runner = captured(PagedStep())
    with pytest.raises(
        ConfigError, match="nothing to compare: 9 tokens .* larger than the largest"
    ):
        bench(runner, 9, batch(9))


def test_a_workload_is_counted_by_cause():
    batches = [Batch.decode(3), Batch.decode(8), Batch.decode(9), Batch(20, 4, 5, prefilling=4)]
    workload = simulate(dispatcher(8), batches)
    assert (workload.replays, workload.too_large, workload.decode) == (2, 1, 3)
    assert workload.hit_rate == 0.5
    assert workload.decode_hit_rate == pytest.approx(2 / 3)
    assert workload.padding_waste == pytest.approx(1 / 12)
    assert workload.as_dict()["buckets"] == {4: 1, 8: 1}


def test_any_step_can_be_timed():
    x = torch.ones(4, device="npu")
    figures = time_step(lambda: x + 1, steps=4, rounds=3)
    assert set(figures) == {"kernel", "host", "end to end"}
    assert all(len(figure.samples) == 3 for figure in figures.values())
