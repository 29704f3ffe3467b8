"""Faults that people met with graphs on NPUs, each done the wrong way: refused, found, or visible.

VA is vllm-project/vllm-ascend. Further scenarios are tests elsewhere in this folder:

| thread | what went wrong | test |
| --- | --- | --- |
| VA #7442 | a wrapper that costs more than the step | test_runner: number of calls |
| VA #10895 | the update writes another length than the step uses | test_update: another value |
| VA #4233 | an update overtakes the replay before it | test_update: runs ahead |
| vLLM #53051 | a prompt that looks like a decode batch | test_dispatch: query length |
| VA #3910 | sizes that cut a request of several tokens | test_sizes: cut a request |
"""

import contextlib
import dataclasses

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from aclgraph import (
    AddressError,
    Batch,
    CaptureError,
    Decision,
    DecodeRunner,
    GraphKey,
    HostInput,
    Input,
    InputError,
    LateCaptureError,
    RuntimeMode,
    simulate,
    verify,
)
from tests.aclgraph.paged import (
    BEYOND_BLOCK_0,
    BLOCK,
    INPUTS,
    PagedStep,
    batch,
    captured,
    dispatcher,
)
from tests.aclgraph.scale_rows import scale_rows

TOKENS = INPUTS[:1]
X = Input("x", (2,), torch.float32)
LENS = HostInput("lens", updates="lens")


def kinds(report):
    return {finding.kind for finding in report.findings}


def numbers(requests, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"tokens": torch.randint(1, 1000, (requests,), generator=generator).npu()}


def unpadded(name):
    """The paged step's inputs, one of them without a padding value."""
    return [dataclasses.replace(spec, pad=None) if spec.name == name else spec for spec in INPUTS]


# ------------------------------------------------------------------ what the capture freezes


def test_lengths_passed_as_host_scalars_are_refused_at_capture():
    """xLLM #1466: context lengths baked at capture; all zeros after some 800 steps."""
    with pytest.raises(CaptureError, match="'lens' is baked into the graph"):
        captured(lambda x, lens: x[:, :1] * float(sum(lens)), [X], host_inputs=[LENS])


def test_lengths_that_hide_in_the_steps_own_state_are_found():
    """The same, past the declared inputs: an attribute that the engine sets before each step."""

    class Step:
        length = 0

        def __call__(self, tokens):
            return tokens * self.length

    step = Step()

    def make(requests, seed):
        step.length = seed
        return numbers(requests, seed)

    report = verify(captured(step, TOKENS), make)
    assert {"baked", "graph"} <= kinds(report)
    assert "host arguments" in str(report) and "test_scenarios.py" in str(report)


def test_a_workspace_sized_by_the_captured_length_is_found():
    """VA #3986: the workspace of the longest sequence is not the largest one."""

    def step(x, lens):
        scratch = torch.zeros(max(lens), device="npu")
        return scale_rows(x, lens) + scratch.sum()

    def make(requests, seed):
        return {"x": torch.rand(requests, 2).npu()}, {"lens": [seed + 1] * requests}

    report = verify(captured(step, [X], host_inputs=[LENS]), make)
    assert "baked" in kinds(report)
    assert "zeros at" in str(report) or "shapes" in str(report)
    larger = dataclasses.replace(LENS, capture_value=64)
    assert larger.at_capture(2, 1) == [64, 64]


def test_a_workspace_that_the_user_drops_stays_alive():
    """VA #5464: a workspace known by a weak reference alone, its memory given to somebody else."""
    workspace = [torch.zeros(8, dtype=torch.int64).npu()]

    def step(tokens):
        workspace[0][: tokens.shape[0]].copy_(tokens)
        return workspace[0][: tokens.shape[0]] * 2

    runner = captured(step, TOKENS)
    workspace.clear()
    others = [torch.full((8,), 77, dtype=torch.int64).npu() for _ in range(8)]
    out = runner.run(runner.dispatcher.lookup(3, True), {"tokens": torch.tensor([1, 2, 3]).npu()})
    assert out.tolist() == [2, 4, 6]
    assert all(other.eq(77).all() for other in others)


def test_reloaded_weights_are_named():
    """VA #13902: garbled output after a reload that allocated new memory."""
    step = PagedStep()
    runner = captured(step)
    decision = runner.dispatcher.lookup(2, True)
    step.v.copy_(step.v * 2)  # in place is fine
    torch.testing.assert_close(runner.run(decision, batch(2)), runner.eager(batch(2)))
    step.v.data = step.v.data.clone()
    with pytest.raises(AddressError, match="PagedStep.v is not where .* memory moved"):
        runner.run(decision, batch(2))


# ------------------------------------------------------------------ padding


def test_a_stale_slot_mapping_is_found():
    """VA #3482: padded rows write the tokens of an earlier batch into the cache."""
    report = verify(
        captured(PagedStep(), unpadded("slot_mapping")), batch, compare_state=BEYOND_BLOCK_0
    )
    assert "padding" in kinds(report)
    assert "inputs ['slot_mapping'] are declared unread" in str(report)


@pytest.mark.parametrize("name", ["positions", "block_table", "seq_lens", "slot_mapping"])
def test_nothing_of_a_fuller_batch_is_left_behind(name):
    """VA #1416: stale positions read out of bounds."""
    runner = captured(PagedStep())
    for requests in (8, 5):
        runner.run(runner.dispatcher.lookup(requests, True), batch(requests, seed=requests))
    spec, buffer = next(
        (spec, buffer)
        for spec, buffer in zip(INPUTS, runner.buffers.all, strict=True)
        if spec.name == name
    )
    assert buffer.tensor[5:].eq(spec.pad).all()


def test_capture_and_idle_replays_leave_the_caches_alone():
    """VA #10901, #9818: dummy batches with stale metadata write into real blocks."""
    step = PagedStep()
    before = step.k_cache.clone()
    runner = captured(step)
    assert torch.equal(step.k_cache[BLOCK:], before[BLOCK:])
    runner.run(runner.dispatcher.lookup(8, True), batch(8))
    before = step.k_cache.clone()
    for decision in (Decision(0, key) for key in runner.graphs):
        runner.run_idle(decision)
    assert torch.equal(step.k_cache[BLOCK:], before[BLOCK:])


def test_an_empty_request_that_becomes_nan_is_found():
    """VA #7506: a branch that ignores the padding's sentinel, and NaN in everybody's result."""

    def step(tokens, seq_lens):
        places = torch.arange(4, device="npu")
        scores = torch.zeros(tokens.shape[0], 4, device="npu")
        weights = scores.masked_fill(places >= seq_lens[:, None], float("-inf")).softmax(-1)
        scale = weights.amax()  # one scale for the whole batch, as in dynamic quantisation
        return tokens * scale

    def make(requests, seed):
        return {**numbers(requests, seed), "seq_lens": torch.ones(requests).int().npu()}

    report = verify(captured(step, [*TOKENS, INPUTS[4]]), make)
    assert kinds(report) == {"padding"}
    assert "output 0" in str(report)


def test_negative_lengths_are_refused():
    """VA #12840: negative local lengths in padded rows took a slow path of the kernel."""
    runner = captured(lambda x, lens: scale_rows(x, lens) * 1, [X], host_inputs=[LENS])
    with pytest.raises(InputError, match="'lens' has the value -3 for request 1"):
        runner.run(runner.dispatcher.lookup(2, True), {"x": torch.rand(2, 2)}, {"lens": [5, -3]})
    assert LENS.padded([5], 4, 1) == [5, 0, 0, 0]


def test_metadata_for_the_real_batch_alone_is_refused():
    """xLLM #1939: metadata for 100 requests, padded to 112: an illegal access."""
    metadata = torch.zeros(5, dtype=torch.int64).npu()
    with pytest.raises(CaptureError, match="bucket of 8 tokens .* warm-up run failed"):
        captured(lambda tokens: tokens + metadata[: tokens.shape[0]], TOKENS)


# ------------------------------------------------------------------ decisions


def test_a_decision_cannot_be_changed_afterwards():
    """VA #7460: the padded request count was reset to the real one."""
    runner = captured(PagedStep())
    decision = runner.dispatcher.lookup(3, True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.num_tokens = 4
    forged = Decision(3, GraphKey(RuntimeMode.FULL, 4, 3, True))
    with pytest.raises(LateCaptureError, match="num_reqs=3, uniform=True.*own dispatcher"):
        runner.run(forged, batch(3))


def test_a_low_hit_rate_shows():
    """vLLM #36165: captured and looked up under different keys, half the throughput, no error."""
    batches = [Batch.decode(n) for n in (1, 5, 9, 12)]
    workload = simulate(dispatcher(8), batches)
    assert workload.decode_hit_rate == 0.5
    assert workload.too_large == 2
    runner = captured(PagedStep())
    for made in batches:
        runner.run(runner.dispatcher.dispatch(made), batch(made.num_reqs))
    assert runner.stats.hit_rate == 0.5


def test_ranks_with_different_loads_pad_their_own_tails():
    """xLLM #2065: stale tails where the key did not know how the ranks' tokens are distributed."""
    runner = captured(PagedStep())
    decide = runner.dispatcher
    runner.run(decide.lookup(8, True), batch(8))
    small, _ = decide.agree([decide.lookup(2, True), decide.lookup(7, True)])
    assert (small.num_tokens, small.padded) == (2, 8)
    inputs = batch(2, seed=3)
    torch.testing.assert_close(runner.run(small, inputs), runner.eager(inputs))
    assert runner.buffers.all[2].tensor[2:].eq(-1).all()


def test_chunked_prompts_run_eagerly_and_a_difference_would_be_found():
    """VA #4649: 96 points eager, 57 with full graphs and chunked prefill."""
    chunk = Batch.of(scheduled=[1, 1], computed=[30, 7], prompt=[20, 8])
    runner = captured(PagedStep())
    assert runner.dispatcher.dispatch(chunk).mode is RuntimeMode.NONE
    step = PagedStep()
    other = DecodeRunner(step, dispatcher(), INPUTS, eager=lambda **inputs: step(**inputs) * 1.01)
    other.capture()
    report = verify(other, batch, compare_state=BEYOND_BLOCK_0)
    assert {finding.subject for finding in report.findings} == {"output 0"}


# ------------------------------------------------------------------ capture


def test_a_swallowed_capture_failure_is_loud_at_the_first_step():
    """VA #5644: the failure of a capture was caught and forgotten."""
    runner = DecodeRunner(lambda tokens: tokens * tokens.sum().item(), dispatcher(), TOKENS)
    with contextlib.suppress(Exception):  # what must not help
        runner.capture()
    assert not runner.graphs
    with pytest.raises(LateCaptureError, match="capture.. was not called, or it failed"):
        runner.run(runner.dispatcher.lookup(1, True), {"tokens": torch.tensor([1]).npu()})


@pytest.mark.parametrize(
    "read",
    [
        lambda lens: lens.tolist(),
        lambda lens: lens.cpu(),
        lambda lens: lens.max().item(),
        lambda lens: lens.nonzero(),
        lambda lens: bool((lens > 0).all()),
    ],
)
def test_a_hidden_wait_for_the_device_is_located(read):
    """VA #8948, #16736: metadata brought to the host inside the step."""

    def step(tokens):
        read(tokens)
        return tokens + 1

    with pytest.raises(CaptureError, match=r"reads device values on the host \(\w+ at .*scenarios"):
        captured(step, TOKENS)


def test_host_memory_used_inside_the_step_is_located():
    lens = torch.tensor([1])

    with pytest.raises(CaptureError, match=r"copies host memory \(\w+ at .*Declare .* an Input"):
        captured(lambda tokens: tokens + lens.npu(), TOKENS)


# ------------------------------------------------------------------ order and cost


def test_without_a_synchronise_the_order_holds():
    """VA #5761 dropped the synchronise before a replay to save 250 us, and accuracy went."""
    runner = captured(PagedStep())
    batches = [batch(1 + i % 8, seed=i) for i in range(24)]
    caches = [name for name, _ in runner.step.named_buffers() if name.endswith("cache")]
    start = {name: getattr(runner.step, name).clone() for name in caches}

    def run(way):
        for name in caches:
            getattr(runner.step, name).copy_(start[name])
        outputs = [way(made).clone() for made in batches]  # nothing waits until here
        return [output.cpu() for output in outputs]

    graph = run(lambda made: runner.run(runner.dispatcher.lookup(len(made["tokens"]), True), made))
    for ours, theirs in zip(graph, run(runner.eager), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_an_update_issues_one_operator_per_layer_and_its_cost_shows():
    """VA #15579: a workspace query per layer made updates cost more than 2 ms per step."""
    layers = 4

    def step(x, lens):
        for _ in range(layers):
            x = scale_rows(x, lens)
        return x

    runner = captured(step, [X], host_inputs=[LENS])
    x = torch.rand(2, 2).npu()
    issued = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            issued.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    runner.run(runner.dispatcher.lookup(2, True), {"x": x}, {"lens": [1, 2]})
    with Watch():
        runner.run(runner.dispatcher.lookup(2, True), {"x": x}, {"lens": [1, 2]})
    assert issued.count("aclgraph_test::scale_rows") == layers
    assert [name for name in issued if name != "aclgraph_test::scale_rows"] == ["aten::copy_"]
    assert runner.stats.updates == 2 * layers
    assert runner.stats.update_us > 0
