"""Pieces of a step as graphs, the rest eager, for batches of any composition."""

import pytest
import torch

from aclgraph import (
    AddressError,
    Batch,
    CaptureError,
    ConfigError,
    DecodeRunner,
    GraphMode,
    LateCaptureError,
    PiecewiseRunner,
    RuntimeMode,
)
from tests.aclgraph.paged import HIDDEN, INPUTS, dispatcher

TOKENS = INPUTS[:1]


class LastOfRequest(torch.nn.Module):
    """Stands for attention over a mixed batch: adds to each token the first of its request.

    Knows the requests from the context: their number is not the graph's business.
    """

    def forward(self, x):
        starts = self.runner.context.inputs["starts"]
        out = torch.zeros_like(x)
        for first, last in zip(starts, [*starts[1:], self.runner.context.num_tokens], strict=True):
            out[first:last] = x[first:last] + x[first]
        return out


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.embed = torch.nn.Parameter(torch.randn(32, HIDDEN, generator=generator))
        self.mix = torch.nn.ModuleList(LastOfRequest() for _ in range(3))
        self.requires_grad_(False)

    def forward(self, tokens):
        x = self.embed.index_select(0, tokens)
        for mix in self.mix:
            x = torch.tanh(mix(x * 2)) + x
        return x, x.sum(-1)


@pytest.fixture
def runner():
    model = Model().npu()
    decide = dispatcher(8, mode=GraphMode.PIECEWISE)
    made = PiecewiseRunner(
        model, decide, TOKENS, [*model.mix], capture_inputs=lambda tokens: {"starts": [0]}
    )
    for mix in model.mix:
        object.__setattr__(mix, "runner", made)
    made.capture()
    return made


def expected(runner, inputs):
    runner.context.inputs = {"starts": inputs["starts"]}
    runner.context.num_tokens = len(inputs["tokens"])
    with torch.no_grad():
        return runner.step(inputs["tokens"])


@pytest.mark.parametrize("starts", [[0], [0, 3], [0, 1, 2, 3, 4]])
def test_mixed_batches_equal_eager(runner, starts):
    inputs = {"tokens": torch.tensor([3, 1, 4, 1, 5]).npu(), "starts": starts}
    decision = dispatcher(8, mode=GraphMode.PIECEWISE).lookup(5, False)
    rows, sums = runner(decision, inputs)
    rows, sums = rows.cpu(), sums.cpu()
    right = expected(runner, inputs)
    torch.testing.assert_close(rows, right[0].cpu())
    torch.testing.assert_close(sums, right[1].cpu())


def test_a_graph_between_each_two_parts(runner):
    for pieces in runner.pieces.values():
        assert [type(piece).__name__ for piece in pieces] == ["NPUGraph", "EagerPart"] * 3 + [
            "NPUGraph"
        ]


def test_the_modules_are_as_before(runner):
    assert all("forward" not in vars(mix) for mix in runner.step.mix)


def test_operators_can_be_split_at():
    weight = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).npu()
    seen = []

    class Spy(torch.nn.Module):
        def forward(self, x):
            seen.append(x.shape[0])
            return x + 1

    spy = Spy()

    def step(tokens):
        x = spy(tokens.float()[:, None].expand(-1, 4) * 0.1)
        return torch.sin(torch.mm(x, weight)) * 2

    decide = dispatcher(4, mode=GraphMode.PIECEWISE)
    runner = PiecewiseRunner(step, decide, TOKENS, ["aten::mm"])
    runner.capture()
    seen.clear()
    tokens = torch.tensor([1, 2, 3]).npu()
    out = runner(decide.lookup(3, False), {"tokens": tokens}).cpu()
    assert not seen, "only the operator is eager"
    torch.testing.assert_close(out, step(tokens).cpu())


def test_with_full_graphs_for_decode():
    """FULL_AND_PIECEWISE: decode batches take full graphs, others the pieces."""
    decide = dispatcher(4, mode=GraphMode.FULL_AND_PIECEWISE)

    def step(tokens):
        return torch.relu(tokens * 2 - 5)

    pieces = PiecewiseRunner(step, decide, TOKENS, ["aten::relu"])
    pieces.capture()
    runner = DecodeRunner(step, decide, TOKENS, piecewise=pieces)
    runner.capture()
    inputs = {"tokens": torch.tensor([1, 2, 3]).npu()}
    for batch, mode in (
        (Batch.decode(3), RuntimeMode.FULL),
        (Batch(3, 2, 0, prefilling=1), RuntimeMode.PIECEWISE),
    ):
        decision = decide.dispatch(batch)
        assert decision.mode is mode
        assert runner.run(decision, inputs).tolist() == [0, 0, 1]
    assert runner.stats.replays == 2


def test_mistakes_are_named(runner):
    decide = dispatcher(4, mode=GraphMode.PIECEWISE)
    with pytest.raises(ConfigError, match=r"inputs \['block_table'\] have no row per token"):
        PiecewiseRunner(lambda **_: None, decide, [INPUTS[3]], ["aten::mm"])
    with pytest.raises(ConfigError, match="nothing to split at"):
        PiecewiseRunner(lambda tokens: tokens, decide, TOKENS, [])
    never = PiecewiseRunner(lambda tokens: tokens + 1, decide, TOKENS, ["aten::mm"])
    with pytest.raises(CaptureError, match=r"never came to .* \['aten::mm'\]"):
        never.capture()
    with pytest.raises(LateCaptureError, match=r"captured are \[1, 2, 4, 8\]"):
        runner(dispatcher(64, mode=GraphMode.PIECEWISE).lookup(50, False), {})
    runner.step.embed.data = runner.step.embed.data.clone()
    with pytest.raises(AddressError, match=r"Model.embed is not where"):
        runner(dispatcher(8, mode=GraphMode.PIECEWISE).lookup(5, False), {})


def test_a_failing_part_names_the_size_and_leaves_the_device_usable():
    def step(tokens):
        return torch.relu(tokens).sum().item()

    decide = dispatcher(4, mode=GraphMode.PIECEWISE)
    before = torch.npu.current_stream()
    with pytest.raises(CaptureError, match="bucket of 4 tokens .* waits for the device"):
        PiecewiseRunner(step, decide, TOKENS, ["aten::relu"]).capture()
    assert torch.npu.current_stream() == before
    assert torch.ones(2, device="npu").sum().item() == 2
