"""Decisions: vLLM's own, and where ours differ on purpose."""

import json
import time
from pathlib import Path

import pytest

from aclgraph.dispatch import Batch, Dispatcher, GraphMode, RuntimeMode
from aclgraph.sizes import default_sizes, user_sizes

CASES = json.loads((Path(__file__).parent / "vllm_dispatch_0.27.1.json").read_text())["cases"]


def dispatcher(mode=GraphMode.FULL_DECODE_ONLY, max_num_seqs=16, query_len=1):
    return Dispatcher(mode, default_sizes(max_num_seqs, query_len=query_len), max_num_seqs)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['mode']}-{c['q']}-{c['max_num_seqs']}")
def test_equals_vllm_up_to_600_tokens(case):
    ours = Dispatcher(
        GraphMode[case["mode"]],
        user_sizes(case["sizes"], query_len=case["q"]),
        case["max_num_seqs"],
    )
    assert list(ours.sizes.sizes) == case["sizes"]
    step = case["q"] if case["uniform_decode"] else 1
    seen = 0
    for first, last, mode, padded, reqs, uniform in case["rows"]:
        for num_tokens in range(first, last + 1, step):
            decision = ours.lookup(num_tokens, case["uniform_decode"])
            seen += 1
            assert decision.mode.name == mode
            assert decision.num_tokens == num_tokens
            if decision.key is None:
                assert (padded, reqs, uniform) == (None, None, None)
            else:
                assert decision.key[1:] == (padded, reqs, uniform)
    assert seen == 600 // step


def test_a_prompt_of_query_length_is_no_decode():
    """vLLM #53051: two requests with q tokens left of their prompts look like a decode step."""
    ours = dispatcher(query_len=4)
    prompt = Batch.of(scheduled=[4, 4], computed=[0, 8], prompt=[4, 8])
    decode = Batch.of(scheduled=[4, 4], computed=[4, 8], prompt=[4, 8])
    assert prompt.num_tokens == decode.num_tokens and prompt.query_len == decode.query_len
    assert ours.dispatch(prompt).mode is RuntimeMode.NONE
    assert ours.dispatch(decode).key == (RuntimeMode.FULL, 8, 2, True)
    assert "1 of 2 requests are still in their prompt" in ours.explain(prompt)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (Batch.decode(3), "full decode graph of 4 tokens (1 padding); every request is past"),
        (Batch.decode(17), "eager; larger than the largest capture size 16"),
        (Batch(99, 3, 0, prefilling=2), "eager; 2 of 3 requests are still in their prompt"),
        (Batch(5, 3, 0), "eager; the requests' query lengths differ"),
        (Batch(4, 2, 2), "eager; query length 2; decode graphs have 1"),
        (Batch(9, 3, 3, prefilling=3), "eager; 3 of 3 requests are still in their prompt"),
    ],
)
def test_explain(batch, reason):
    assert reason in dispatcher().explain(batch)


def test_explain_of_the_other_modes():
    batch = Batch.decode(3)
    assert "graphs are off" in dispatcher(GraphMode.NONE).explain(batch)
    assert "makes no difference" in dispatcher(GraphMode.PIECEWISE).explain(batch)
    both = dispatcher(GraphMode.FULL_AND_PIECEWISE)
    assert "excluded full graphs" in both.explain(batch, allow_full=False)
    assert both.dispatch(batch, allow_full=False).mode is RuntimeMode.PIECEWISE
    assert dispatcher().dispatch(batch, allow_full=False).mode is RuntimeMode.NONE


def test_a_size_beyond_max_num_seqs_has_no_decode_graph():
    ours = Dispatcher(GraphMode.FULL_DECODE_ONLY, user_sizes([8, 32]), max_num_seqs=20)
    assert ours.dispatch(Batch.decode(9)).mode is RuntimeMode.NONE
    assert "more requests than max_num_seqs 20" in ours.explain(Batch.decode(9))


def test_keys_are_captured_largest_first():
    assert [key.num_tokens for key in dispatcher().graph_keys()] == [16, 8, 4, 2, 1]
    both = dispatcher(GraphMode.FULL_AND_PIECEWISE)
    assert [key.mode.name for key in both.graph_keys()] == ["PIECEWISE"] * 5 + ["FULL"] * 5


def test_every_decision_is_among_the_keys():
    """A key that is looked up and was never captured would be a silent eager run (vLLM #36165)."""
    for mode in GraphMode:
        for query_len in (1, 3):
            ours = dispatcher(mode, 24, query_len)
            keys = set(ours.graph_keys())
            for num_tokens in range(0, 200):
                for uniform in (False, True):
                    key = ours.lookup(num_tokens, uniform).key
                    assert key is None or key in keys


def test_ranks_agree_on_the_weakest_mode_and_the_most_tokens():
    ours = dispatcher()
    small, large = ours.lookup(2, True), ours.lookup(9, True)
    idle, eager = ours.lookup(0, True), ours.lookup(7, False)
    agreed = ours.agree([small, large, idle])
    assert {decision.key for decision in agreed} == {large.key}
    assert [decision.num_tokens for decision in agreed] == [2, 9, 0]
    assert ours.agree([small, idle])[1].key.num_tokens == 2
    assert [decision.key for decision in ours.agree([small, eager])] == [None, None]
    assert ours.agree([idle, idle])[0].key is None
    both = dispatcher(GraphMode.FULL_AND_PIECEWISE)
    mixed = both.agree([both.lookup(2, True), both.lookup(7, False)])
    assert {decision.key for decision in mixed} == {(RuntimeMode.PIECEWISE, 8, None, False)}


def test_a_decision_is_a_table_lookup():
    """No new object per step: the cost can't grow with the number of graphs."""
    ours = dispatcher(max_num_seqs=256)
    batch = Batch.decode(100)
    assert ours.dispatch(batch) is ours.dispatch(batch)
    begin = time.perf_counter()
    for _ in range(20000):
        ours.dispatch(batch)
    assert (time.perf_counter() - begin) / 20000 < 20e-6
