"""The legacy formula against vllm-ascend's own figures, and the live budget's promises."""

import pytest

from aclgraph import budget
from aclgraph.budget import Parallelism, legacy_limit, live_plan, thin_out
from aclgraph.errors import BudgetError
from aclgraph.sizes import default_sizes

CASES = {
    "alone": (Parallelism(), 0),
    "tp": (Parallelism(tp=2), 0),
    "tp, dp": (Parallelism(tp=2, dp=2), 0),
    "tp, AIV": (Parallelism(tp=2, aiv=True), 0),
    "MoE, AIV": (Parallelism(tp=2, dp=2, expert_parallel=True, moe=True, aiv=True), 0),
    "tp, draft": (Parallelism(tp=2), 1),
}
# Layers -> sizes allowed in each case above (vllm_ascend/utils.py at 5f2ef5a0b2^).
TABLE = {
    24: (72, 23, 13, 35, 14, 21),
    28: (62, 20, 11, 30, 12, 18),
    32: (54, 17, 10, 26, 10, 16),
    36: (48, 15, 9, 23, 9, 15),
    48: (36, 11, 7, 17, 7, 11),
    61: (29, 9, 5, 13, 5, 9),
    64: (27, 9, 5, 12, 5, 8),
    80: (22, 7, 4, 10, 4, 7),
    94: (18, 6, 3, 8, 3, 6),
}


@pytest.mark.parametrize("layers", TABLE)
def test_legacy_formula(layers):
    limits = [
        legacy_limit(51, layers, parallel, draft_layers=draft) for parallel, draft in CASES.values()
    ]
    assert tuple(limits) == TABLE[layers]


def test_full_and_piecewise_counts_the_full_graphs_off():
    assert legacy_limit(51, 24, Parallelism(), full_and_piecewise=True) == (1800 - 51) // 25


def test_thinning_keeps_both_ends_and_spreads_the_rest():
    thin = thin_out(default_sizes(512), 12, "streams")
    assert thin.sizes == (1, 24, 56, 96, 128, 168, 200, 240, 288, 368, 432, 512)
    assert len(thin.dropped) == 51 - 12
    assert thin_out(default_sizes(512), 1, "streams").sizes == (512,)


def test_live_budget_drops_sizes_and_says_so():
    plan = live_plan(default_sizes(16), streams=100, reserve=64, streams_per_graph=12)
    assert plan.sizes.sizes == (1, 4, 16)
    assert plan.fits == 3
    assert str(plan) == "3 sizes, room for 3, streams 100; dropped [2, 8]"
    assert "streams for 3 graphs (100 left, 64 kept back)" in plan.sizes.dropped[0].reason


def test_live_budget_refuses_before_the_first_capture():
    with pytest.raises(BudgetError, match="has 70 streams left, 64 are kept back"):
        live_plan(default_sizes(16), streams=70, streams_per_graph=8)


def test_live_budget_without_an_answer_of_the_runtime(monkeypatch):
    monkeypatch.setattr(budget, "available_streams", lambda: None)
    plan = live_plan(default_sizes(16))
    assert plan.sizes == default_sizes(16)
    assert "streams unknown" in str(plan)


def test_the_runtime_answers():
    torch = pytest.importorskip("torch")
    torch.npu.set_device(0)
    before = budget.available_streams()
    assert before is not None and before > 1000
