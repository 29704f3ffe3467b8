"""The runner on a paged decode step: replays equal eager runs, and mistakes are named."""

import pytest
import torch

from aclgraph import (
    AddressError,
    Batch,
    CaptureError,
    ConfigError,
    DecodeRunner,
    GraphMode,
    Input,
    InputError,
    LateCaptureError,
    Per,
)
from tests.aclgraph.paged import INPUTS, PagedStep, batch, captured, dispatcher


@pytest.fixture(scope="module")
def runner():
    return captured(PagedStep())


@pytest.mark.parametrize("requests", [1, 3, 8, 5, 2, 7])
def test_a_replay_equals_the_unpadded_eager_run(runner, requests):
    inputs = batch(requests, seed=requests)
    expected = runner.eager(inputs).cpu()
    out = runner.run(runner.dispatcher.dispatch(Batch.decode(requests)), inputs)
    assert out.shape == expected.shape
    torch.testing.assert_close(out.cpu(), expected)


def test_progress_is_reported_largest_first():
    seen = []
    runner = DecodeRunner(PagedStep(), dispatcher(), INPUTS)
    reports = runner.capture(seen.append)
    assert seen == reports
    assert [report.key.num_tokens for report in reports] == [8, 4, 2, 1]
    assert "1/4     8 tokens" in str(reports[0]) and "MiB" in str(reports[0])
    assert all(report.bytes <= reports[0].bytes for report in reports), "the pool is not shared"


def test_host_inputs_may_lie_in_host_memory(runner):
    inputs = {name: value.cpu() for name, value in batch(3).items()}
    decision = runner.dispatcher.dispatch(Batch.decode(3))
    torch.testing.assert_close(runner.run(decision, inputs).cpu(), runner.eager(inputs).cpu())


def test_large_batches_run_eagerly_and_are_counted(runner):
    runner.stats.reset()
    for requests in (3, 8, 9):
        runner.run(runner.dispatcher.dispatch(Batch.decode(requests)), batch(requests))
    assert (runner.stats.replays, runner.stats.eager) == (2, 1)
    assert runner.stats.padding_waste == pytest.approx(1 / 12)
    assert "hit rate 66.7%" in str(runner.stats)


def test_speculative_decode_has_several_tokens_per_request():
    runner = captured(PagedStep(), dispatcher=dispatcher(4, query_len=2))
    assert sorted(key.num_tokens for key in runner.graphs) == [2, 4, 8]
    inputs = batch(3, seed=1, query_len=2)
    out = runner.run(runner.dispatcher.dispatch(Batch.decode(3, 2)), inputs)
    assert out.shape[0] == 6
    torch.testing.assert_close(out.cpu(), runner.eager(inputs).cpu())


def test_query_start_loc_goes_on_with_its_stride():
    starts = Input("starts", dtype=torch.int32, per=Per.BOUNDARY)
    step = captured(lambda starts: starts * 1, [starts], dispatcher=dispatcher(4, query_len=2))
    batch_of_3 = {"starts": torch.tensor([0, 2, 4, 6], dtype=torch.int32).npu()}
    step.run(step.dispatcher.dispatch(Batch.decode(3, 2)), batch_of_3)
    assert step.buffers.all[0].tensor.tolist() == [0, 2, 4, 6, 8]


def test_outputs_keep_their_structure_and_only_real_rows():
    def step(tokens):
        return {"twice": tokens * 2, "pair": (tokens + 1, tokens.sum()), "note": "constant"}

    runner = captured(step, INPUTS[:1])
    out = runner.run(
        runner.dispatcher.dispatch(Batch.decode(3)), {"tokens": torch.tensor([1, 2, 3]).npu()}
    )
    assert out["twice"].tolist() == [2, 4, 6]
    assert out["pair"][0].tolist() == [2, 3, 4]
    assert out["pair"][1].item() == 6  # padding of tokens is 0
    assert out["note"] == "constant"


def test_an_output_that_happens_to_be_as_long_as_a_bucket_stays_whole():
    table = torch.arange(8).npu()
    runner = captured(lambda tokens: (tokens + 1, table * 1), INPUTS[:1])
    out = runner.run(runner.dispatcher.dispatch(Batch.decode(5)), {"tokens": torch.arange(5).npu()})
    assert (len(out[0]), len(out[1])) == (5, 8)


def test_copied_outputs_survive_the_next_replay():
    views, copies = (
        captured(lambda tokens: tokens + 1, INPUTS[:1], copy_outputs=copy) for copy in (False, True)
    )
    for runner, survives in ((views, False), (copies, True)):
        decision = runner.dispatcher.dispatch(Batch.decode(2))
        first = runner.run(decision, {"tokens": torch.tensor([1, 2]).npu()})
        runner.run(decision, {"tokens": torch.tensor([5, 6]).npu()})
        assert (first.tolist() == [2, 3]) is survives


def test_an_input_that_the_step_overwrites_is_padded_every_time():
    runner = captured(lambda tokens: tokens.add_(1).clone(), INPUTS[:1])
    decision = runner.dispatcher.dispatch(Batch.decode(3))
    for _ in range(3):
        runner.run(decision, {"tokens": torch.zeros(3, dtype=torch.int64).npu()})
    assert runner.buffers.all[0].tensor[:4].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": torch.zeros(4, dtype=torch.int64)}, r"'tokens' is \(4,\) torch.int64; this"),
        ({"tokens": torch.zeros(3, dtype=torch.int32)}, "this batch needs .3,. torch.int64"),
        ({"block_table": torch.zeros(3, 1, dtype=torch.int32)}, "'block_table' is .3, 1."),
        ({"mask": torch.zeros(3)}, r"missing: \[\]; not declared: \['mask'\]"),
    ],
)
def test_a_wrong_input_is_named(runner, change, message):
    with pytest.raises(InputError, match=message):
        runner.run(runner.dispatcher.dispatch(Batch.decode(3)), {**batch(3), **change})


def test_a_missing_input_is_named(runner):
    inputs = batch(3)
    del inputs["seq_lens"]
    with pytest.raises(InputError, match=r"missing: \['seq_lens'\]"):
        runner.run(runner.dispatcher.dispatch(Batch.decode(3)), inputs)


def test_run_before_capture():
    runner = DecodeRunner(PagedStep(), dispatcher(), INPUTS)
    with pytest.raises(LateCaptureError, match="capture.. was not called"):
        runner.run(runner.dispatcher.dispatch(Batch.decode(3)), batch(3))


def test_a_size_that_was_not_captured_is_an_error_and_no_eager_run(runner):
    other = dispatcher(64)
    with pytest.raises(LateCaptureError, match=r"captured are \[1, 2, 4, 8\] tokens"):
        runner.run(other.dispatch(Batch.decode(20)), batch(20))
    with pytest.raises(LateCaptureError, match="recapture"):
        runner.capture()


def test_without_graphs_every_step_is_eager():
    runner = captured(PagedStep(), dispatcher=dispatcher(mode=GraphMode.NONE))
    inputs = batch(3)
    out = runner.run(runner.dispatcher.dispatch(Batch.decode(3)), inputs)
    assert torch.equal(out, runner.eager(inputs))
    assert (runner.stats.replays, runner.stats.eager) == (0, 1)


def test_modes_that_the_runner_would_have_to_run_eagerly_are_refused():
    for mode, message in (
        (GraphMode.FULL, "full graphs of mixed batches"),
        (GraphMode.FULL_AND_PIECEWISE, "no `piecewise` runner was given"),
    ):
        with pytest.raises(ConfigError, match=message):
            DecodeRunner(PagedStep(), dispatcher(mode=mode), INPUTS)


def test_replaced_parameter_is_named():
    step = PagedStep()
    runner = captured(step)
    step.k = torch.nn.Parameter(step.k.clone(), requires_grad=False)
    with pytest.raises(AddressError, match=r"PagedStep.k is not where.*another object"):
        runner.run(runner.dispatcher.dispatch(Batch.decode(1)), batch(1))
    runner.recapture()
    runner.run(runner.dispatcher.dispatch(Batch.decode(1)), batch(1))


def test_a_function_to_watch_finds_a_replaced_attribute():
    class Engine:
        cache = torch.zeros(4, dtype=torch.int64).npu()

    engine = Engine()
    runner = captured(
        lambda tokens: tokens + engine.cache[0], INPUTS[:1], watch={"cache": lambda: engine.cache}
    )
    engine.cache = torch.ones(4, dtype=torch.int64).npu()
    with pytest.raises(AddressError, match="cache is not where .* another tensor is in use"):
        runner.run(runner.dispatcher.dispatch(Batch.decode(1)), {"tokens": torch.tensor([1]).npu()})


def test_undeclared_tensors_stay_alive_and_are_watched():
    weight = torch.full((1,), 5, dtype=torch.int64).npu()
    holder = [weight]
    runner = captured(lambda tokens: tokens * holder[0], INPUTS[:1])
    inputs, decision = {"tokens": torch.tensor([2]).npu()}, runner.dispatcher.lookup(1, True)
    holder.clear()
    del weight
    _ = [torch.zeros(1, dtype=torch.int64).npu() for _ in range(20)]
    assert runner.run(decision, inputs).tolist() == [10]


def test_moved_memory_of_an_undeclared_tensor_is_found():
    weight = torch.full((1,), 5, dtype=torch.int64).npu()
    runner = captured(lambda tokens: tokens * weight, INPUTS[:1])
    weight.data = torch.full((1,), 6, dtype=torch.int64).npu()
    with pytest.raises(AddressError, match=r"undeclared \(1,\) torch.int64 tensor of mul at .*py"):
        runner.run(runner.dispatcher.lookup(1, True), {"tokens": torch.tensor([2]).npu()})


def test_after_a_failed_capture_the_device_is_usable():
    side = torch.npu.Stream()

    def forks(tokens):
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            return tokens * 2

    before = torch.npu.current_stream()
    with pytest.raises(CaptureError, match="bucket of 8 tokens.*side stream .* was not joined"):
        captured(forks, INPUTS[:1])
    assert torch.npu.current_stream() == before
    runner = captured(lambda tokens: tokens * 2, INPUTS[:1])
    out = runner.run(runner.dispatcher.lookup(1, True), {"tokens": torch.tensor([2]).npu()})
    assert out.tolist() == [4]


def test_run_costs_the_same_number_of_calls_whatever_is_watched():
    """vllm-ascend #7442: a wrapper that cost 6 ms per step."""
    import sys

    def calls(watched):
        runner = captured(lambda tokens: tokens + 1, INPUTS[:1], watch=watched)
        inputs, decision = {"tokens": torch.tensor([2]).npu()}, runner.dispatcher.lookup(1, True)
        runner.run(decision, inputs)
        count = 0

        def profile(frame, event, arg):
            nonlocal count
            count += event == "call"

        sys.setprofile(profile)
        runner.run(decision, inputs)
        sys.setprofile(None)
        return count

    few = calls({})
    many = calls({f"w{i}": torch.zeros(1).npu() for i in range(50)})
    assert few == many
    assert few < 20


def test_a_step_that_raises_while_it_is_captured():
    calls = []

    def step(tokens):
        calls.append(tokens)
        if len(calls) == 2:
            raise KeyError("layer 7")
        return tokens * 2

    runner = DecodeRunner(step, dispatcher(), INPUTS[:1])
    with pytest.raises(
        CaptureError, match="8 tokens .* its capture failed with KeyError: 'layer 7'"
    ):
        runner.capture()
    runner.capture()
    out = runner.run(runner.dispatcher.lookup(1, True), {"tokens": torch.tensor([2]).npu()})
    assert out.tolist() == [4]


def test_the_outputs_of_all_sizes_share_memory():
    """Logits of every size side by side would cost as much as all sizes together."""

    def step(tokens):
        return tokens[:, None].expand(-1, 2**18) + 0.5  # 1 MiB per token

    runner = DecodeRunner(step, dispatcher(), INPUTS[:1])
    first, *others = runner.capture()
    assert first.bytes >= 8 * 2**20
    assert sum(report.bytes for report in others) == 0
    for requests in (8, 3):
        inputs = {"tokens": torch.arange(requests).npu()}
        out = runner.run(runner.dispatcher.lookup(requests, True), inputs)
        assert out[:, 7].tolist() == [number + 0.5 for number in range(requests)]


def test_a_result_keeps_its_memory_when_the_runner_is_closed():
    runner = captured(lambda tokens: tokens + 1, INPUTS[:1])
    out = runner.run(runner.dispatcher.lookup(2, True), {"tokens": torch.tensor([1, 2]).npu()})
    runner.close()
    torch.npu.empty_cache()
    _ = [torch.full((64,), 9, dtype=torch.int64).npu() for _ in range(50)]
    assert out.tolist() == [2, 3]


def test_a_replaced_submodule_is_named():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(PagedStep() for _ in range(2))

        def forward(self, tokens):
            return tokens * 2 + self.layers[1].places[0]

    runner = captured(Model(), INPUTS[:1])
    runner.step.layers[1] = PagedStep()
    with pytest.raises(AddressError, match="Model.layers.1 is not where"):
        runner.run(runner.dispatcher.lookup(1, True), {"tokens": torch.tensor([1]).npu()})


def test_a_parameter_put_in_place_unseen_is_found_on_request():
    """As code does that writes into a module's dictionaries, past every hook."""
    step = PagedStep()
    runner = captured(step)
    step._parameters["q"] = torch.nn.Parameter(step.q.clone(), requires_grad=False)
    with pytest.raises(AddressError, match="PagedStep.q is not where"):
        runner.check_addresses()
