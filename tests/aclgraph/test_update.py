"""Per-step host values reach each replay, in order, without a host synchronise."""

import pytest
import torch
import torch_npu

from aclgraph import (
    CaptureError,
    DecodeRunner,
    HostInput,
    InputError,
    UpdateError,
    bench_trace,
    verify,
)
from aclgraph.inputs import Input, block_table
from tests.aclgraph.paged import captured, dispatcher
from tests.aclgraph.scale_rows import scale_rows

X = Input("x", (2,), torch.float32)
LENS = HostInput("lens", updates="lens")
LAYERS = 3


def step(x, lens):
    for _ in range(LAYERS):
        x = scale_rows(x + 1, lens)
    return x * 1


def expected(x, lens):
    for _ in range(LAYERS):
        x = (x + 1) * torch.tensor(lens, dtype=torch.float32)[:, None]
    return x


def runner_of(step=step, **options):
    return captured(step, [X], host_inputs=[LENS], **options)


@pytest.fixture(params=["update_first", "replay_first"])
def runner(request):
    return runner_of(update_order=request.param)


def test_each_replay_uses_the_values_of_its_step(runner):
    for requests, lens in ((3, [5, 7, 9]), (3, [1, 2, 3]), (4, [4, 4, 4, 4]), (1, [8])):
        x = torch.rand(requests, 2)
        out = runner.run(runner.dispatcher.lookup(requests, True), {"x": x}, {"lens": lens})
        torch.testing.assert_close(out.cpu(), expected(x, lens))
    assert runner.stats.updates == 4 * LAYERS
    assert runner.stats.update_us > 0


def test_a_host_that_runs_ahead_loses_no_update(runner):
    """A release that overtakes the replay before it is lost, and the next replay hangs (#4233)."""
    steps = [(torch.rand(2, 2), [i, i + 1]) for i in range(30)]
    inputs = [x.npu() for x, _ in steps]
    outputs = [
        runner.run(runner.dispatcher.lookup(2, True), {"x": x}, {"lens": lens}).clone()
        for x, (_, lens) in zip(inputs, steps, strict=True)
    ]
    for out, (x, lens) in zip(outputs, steps, strict=True):
        torch.testing.assert_close(out.cpu(), expected(x, lens))


def test_buckets_take_turns(runner):
    for i in range(12):
        requests = (1, 4, 2)[i % 3]
        x, lens = torch.rand(requests, 2), [i + 1] * requests
        out = runner.run(runner.dispatcher.lookup(requests, True), {"x": x}, {"lens": lens})
        torch.testing.assert_close(out.cpu(), expected(x, lens))


def test_a_value_that_no_operator_takes_updates_of_is_refused():
    """Baked lengths decode zeros after some hundred steps (xLLM #1466)."""
    with pytest.raises(CaptureError, match="'lens' is baked into the graph: no captured operator"):
        runner_of(lambda x, lens: x * lens[0])


def test_operators_with_updates_are_named_when_the_key_is_wrong():
    wrong = HostInput("lens", updates="context_lens")
    with pytest.raises(CaptureError, match=r"'context_lens' \(operators .* \['scale_rows.out'\]"):
        captured(step, [X], host_inputs=[wrong])


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ({}, r"missing or not declared: \['lens'\]"),
        ({"lens": [1, 2, 3]}, "has 3 values; the bucket has room for 2 requests"),
        ({"lens": [4, -1]}, "value -1 for request 1; the minimum is 0"),
    ],
)
def test_wrong_host_values_are_named_and_the_runner_goes_on(host, message):
    runner = runner_of(update_order="replay_first")
    decision = runner.dispatcher.lookup(2, True)
    with pytest.raises(InputError, match=message):
        runner.run(decision, {"x": torch.rand(2, 2)}, host)
    out = runner.run(decision, {"x": torch.zeros(2, 2)}, {"lens": [1, 1]})
    assert out.tolist() == [[3.0, 3.0]] * 2


def test_a_failing_update_is_no_hang():
    runner = runner_of()
    decision = runner.dispatcher.lookup(2, True)
    with pytest.raises(UpdateError, match=r"update of \['lens'\] was refused"):
        runner.run(decision, {"x": torch.rand(2, 2)}, {"lens": [4.5, 5.5]})
    with pytest.raises(UpdateError, match="an earlier update failed"):
        runner.run(decision, {"x": torch.rand(2, 2)}, {"lens": [1, 1]})
    runner.recapture()
    out = runner.run(decision, {"x": torch.zeros(2, 2)}, {"lens": [1, 1]})
    assert out.tolist() == [[3.0, 3.0]] * 2


def test_padding_of_cumulative_values_goes_on():
    lens = HostInput("q", updates="q", cumulative=True)
    assert lens.padded([2, 4], 4, 2) == [2, 4, 6, 8]
    assert lens.at_capture(3, 2) == [2, 4, 6]
    assert HostInput("kv", updates="kv").padded([7], 3, 1) == [7, 0, 0]


def test_verify_accepts_updates():
    def make(requests, seed):
        generator = torch.Generator().manual_seed(seed)
        lens = torch.randint(1, 9, (requests,), generator=generator).tolist()
        return {"x": torch.rand(requests, 2, generator=generator).npu()}, {"lens": lens}

    report = verify(runner_of(), make)
    assert report.ok, str(report)


def test_verify_finds_an_update_with_another_value_than_the_step_passes():
    """The update writes the whole length, the step takes the part of its rank (#10895)."""

    def halves(x, lens):
        return scale_rows(x + 1, [length // 2 for length in lens]) * 1

    def make(requests, seed):
        return {"x": torch.rand(requests, 2).npu()}, {"lens": [4 + seed] * requests}

    report = verify(runner_of(halves), make)
    assert {finding.kind for finding in report.findings} == {"graph"}
    assert "an update with another value than the step passes" in str(report)


def test_without_a_capture_there_is_nothing_to_update():
    runner = DecodeRunner(step, dispatcher(), [X], host_inputs=[LENS])
    out = runner.eager({"x": torch.zeros(1, 2)}, {"lens": [2]})
    assert out.tolist() == [[14.0, 14.0]]


@pytest.mark.parametrize("order", ["update_first", "replay_first"])
def test_paged_attention_with_host_lengths(order):
    """torch_npu's fused attention, whose KV lengths are host integers, in three layers."""
    heads, dim, block, blocks = 4, 32, 16, 9
    generator = torch.Generator().manual_seed(0)
    caches = torch.randn(2, blocks, block, heads * dim, generator=generator).half().npu()
    kv_lens = HostInput("kv_lens", updates="actual_seq_lengths_kv", capture_value=2 * block)

    def attend(q, block_table, kv_lens):
        for _ in range(LAYERS):
            out, _ = torch_npu.npu_fused_infer_attention_score(
                q,
                caches[0],
                caches[1],
                actual_seq_lengths_kv=kv_lens,
                block_table=block_table,
                block_size=block,
                input_layout="BNSD",
                num_heads=heads,
                num_key_value_heads=heads,
                scale=dim**-0.5,
            )
            q = q + out
        return q

    specs = [Input("q", (heads, 1, dim), torch.float16), block_table(2)]
    runner = captured(attend, specs, host_inputs=[kv_lens], update_order=order)

    def make(requests, seed):
        generator = torch.Generator().manual_seed(seed)
        q = torch.randn(requests, heads, 1, dim, generator=generator).half()
        table = torch.randint(1, blocks, (requests, 2), generator=generator).int()
        lens = torch.randint(1, 2 * block, (requests,), generator=generator).tolist()
        return {"q": q.npu(), "block_table": table.npu()}, {"kv_lens": lens}

    for requests, seed in ((3, 1), (3, 2), (8, 3), (1, 4), (5, 5)):
        inputs, host = make(requests, seed)
        out = runner.run(runner.dispatcher.lookup(requests, True), inputs, host).clone()
        torch.testing.assert_close(out, runner.eager(inputs, host), rtol=1e-3, atol=1e-3)
    report = verify(runner, make)
    assert report.ok, str(report)


def test_a_trace_of_batch_sizes_has_its_update_cost():
    runner = runner_of()
    report = bench_trace(
        runner,
        [3, 8, 3, 9],
        lambda count: ({"x": torch.rand(count, 2).npu()}, {"lens": [1] * count}),
    )
    assert (report.workload.replays, report.workload.too_large) == (3, 1)
    assert report.as_dict()["padding_waste"] == pytest.approx(2 / 16)
    assert 0 < report.update_us < report.step_us * 4
    assert runner.stats.steps == 0
