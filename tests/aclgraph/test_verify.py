"""verify(): nothing to say about a sound step, and the cause named for each broken one."""

import pytest
import torch

from aclgraph import Batch, VerifyError, verify
from aclgraph.inputs import Input
from tests.aclgraph.paged import BEYOND_BLOCK_0, INPUTS, PagedStep, batch, captured


def findings(runner, make_batch=batch, **options):
    report = verify(runner, make_batch, **options)
    return {finding.kind for finding in report.findings}, report


def numbers(requests, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"tokens": torch.randint(1, 1000, (requests,), generator=generator).npu()}


def test_a_sound_step_has_no_findings():
    runner = captured(PagedStep())
    runner.run(runner.dispatcher.dispatch(Batch.decode(2)), batch(2))
    kinds, report = findings(runner, compare_state=BEYOND_BLOCK_0)
    assert not kinds, str(report)
    assert report.cases >= 4 * 2
    assert runner.stats.steps == 1
    report.raise_for_findings()


def test_the_state_is_as_before():
    step = PagedStep()
    runner = captured(step)
    before = step.k_cache.clone()
    verify(runner, batch, compare_state=BEYOND_BLOCK_0)
    assert torch.equal(step.k_cache, before)


def test_a_scalar_that_the_host_computes_is_named():
    class Counter:
        steps = 0

        def __call__(self, tokens):
            self.steps += 1
            return tokens * self.steps

    kinds, report = findings(captured(Counter(), INPUTS[:1]), numbers)
    assert {"baked", "graph"} <= kinds
    assert "mul at" in str(report) and "test_verify.py" in str(report)
    with pytest.raises(VerifyError, match="stay so in the graph"):
        report.raise_for_findings()


def test_a_tensor_that_python_rebinds_is_named():
    class Accumulator:
        def __init__(self):
            self.total = torch.zeros(1, dtype=torch.int64).npu()

        def __call__(self, tokens):
            self.total = self.total + tokens.sum()
            return tokens + self.total

    kinds, report = findings(captured(Accumulator(), INPUTS[:1]), numbers)
    assert "rebound" in kinds
    assert "its argument self is another tensor" in str(report)


def test_a_python_branch_is_named():
    class Branch:
        warm = False

        def __call__(self, tokens):
            was, self.warm = self.warm, True
            return tokens + 1 if was else tokens * 2

    kinds, report = findings(captured(Branch(), INPUTS[:1]), numbers)
    assert "path" in kinds
    assert "a Python branch" in str(report)


def test_an_output_that_is_an_input_or_a_weight_is_named():
    weight = torch.ones(4, dtype=torch.int64).npu()
    step = captured(lambda tokens: (tokens, weight, tokens + 1), INPUTS[:1], watch={"w": weight})
    kinds, report = findings(step, numbers)
    assert kinds == {"alias"}
    assert "output 0: shares its memory with input 'tokens'" in str(report)


def test_stale_rows_behind_an_input_without_padding_are_found():
    unpadded = Input("tokens", pad=None)
    kinds, report = findings(
        captured(lambda tokens: tokens * 1 + tokens.sum(), [unpadded]), numbers
    )
    assert kinds == {"padding"}
    assert "inputs ['tokens'] are declared unread" in str(report)
    assert not findings(captured(lambda tokens: tokens + 1, [unpadded]), numbers)[0]


def test_writes_of_padded_rows_into_a_cache_are_found():
    class Broken(PagedStep):
        def slots(self, slot_mapping):
            return slot_mapping.long() % self.k_cache.shape[0]  # -1 becomes the last slot

    kinds, report = findings(captured(Broken()), compare_state=BEYOND_BLOCK_0)
    assert kinds == {"padding", "idle"}
    assert "Broken.k_cache" in str(report)


def test_a_frozen_value_that_no_operator_shows_is_still_found():
    """The graph holds another weight than the step uses now, and addresses are not watched."""
    weights = [torch.ones(1, dtype=torch.int64).npu(), torch.full((1,), 7).npu()]
    chosen = weights[0]

    def step(tokens):
        return tokens * chosen

    runner = captured(step, INPUTS[:1])
    chosen = weights[1]
    kinds, _ = findings(runner, numbers)
    assert {"rebound", "graph"} <= kinds


def test_padding_that_the_step_spoils_unseen_is_found():
    """As a kernel does that PyTorch's dispatcher does not show: the runner knows of no write."""
    runner = captured(lambda tokens: tokens.add_(1).clone(), INPUTS[:1])
    runner.buffers.all[0].written_by_step = False
    kinds, report = findings(runner, numbers)
    assert "spoilt" in kinds
    assert "input 'tokens': the replay wrote into its padding" in str(report)


def test_a_step_that_writes_into_its_inputs_is_sound_otherwise():
    kinds, report = findings(captured(lambda tokens: tokens.add_(1).clone(), INPUTS[:1]), numbers)
    assert not kinds, str(report)


def test_state_that_only_the_user_knows_of():
    hidden = torch.zeros(8, dtype=torch.int64).npu()
    runner = captured(lambda tokens: tokens + 1, INPUTS[:1])
    kinds, _ = findings(runner, numbers, state={"hidden": hidden})
    assert not kinds
    step = captured(lambda tokens: hidden.add_(1)[: tokens.shape[0]] + tokens, INPUTS[:1])
    kinds, report = findings(step, numbers)
    assert "idle" in kinds and "undeclared (8,) torch.int64 tensor of add_" in str(report)
