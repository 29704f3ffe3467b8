"""Capture size lists against the numbers of vLLM and vllm-ascend."""

import subprocess
import sys

import pytest

from aclgraph.errors import ConfigError
from aclgraph.sizes import CaptureSizes, default_sizes, user_sizes


@pytest.mark.parametrize(
    ("max_num_seqs", "count", "largest"),
    [(16, 5, 16), (32, 7, 32), (64, 11, 64), (100, 15, 96), (128, 19, 128), (256, 35, 256)],
)
def test_ascend_defaults(max_num_seqs, count, largest):
    sizes = default_sizes(max_num_seqs)
    assert (len(sizes.sizes), sizes.largest) == (count, largest)


def test_the_cap():
    assert len(default_sizes(512).sizes) == len(default_sizes(4096).sizes) == 51
    assert default_sizes(4096).largest == 512


def test_vllm_goes_twice_as_far():
    assert default_sizes(16, flavour="vllm").sizes == (1, 2, 4, 8, 16, 24, 32)
    assert default_sizes(4096, flavour="vllm").largest == 512


def test_speculative_decode_rounds_to_the_query_length():
    assert default_sizes(16, query_len=4).sizes == (4, 8, 16, 24, 32, 40, 48, 56, 64)
    assert len(default_sizes(64, query_len=2).sizes) == 18
    assert all(size % 3 == 0 for size in default_sizes(16, query_len=3).sizes)


def test_max_num_batched_tokens_clips_and_is_a_size_itself():
    assert default_sizes(64, max_num_batched_tokens=21).sizes == (1, 2, 4, 8, 16, 21)
    assert default_sizes(8, max_num_batched_tokens=21).sizes == (1, 2, 4, 8)


def test_sequence_parallelism_keeps_multiples_of_tp():
    sizes = default_sizes(32, sequence_parallel_tp=4)
    assert sizes.sizes == (4, 8, 16, 24, 32)
    assert [item.size for item in sizes.dropped] == [1, 2]
    assert "tensor parallel 4" in sizes.dropped[0].reason


def test_user_list_is_cleaned_and_says_what_it_lost():
    sizes = user_sizes([64, 8, 8, 1, 300], max_num_batched_tokens=256)
    assert sizes.sizes == (1, 8, 64)
    assert [(item.size, item.reason) for item in sizes.dropped] == [
        (300, "more than max_num_batched_tokens 256")
    ]


def test_a_list_and_a_maximum_that_disagree():
    with pytest.raises(ConfigError, match="largest capture size is 64, but max_size says 128"):
        user_sizes([1, 64], max_size=128)


def test_sizes_that_cut_a_request_are_refused():
    with pytest.raises(ConfigError, match=r"\[8, 16\] are no multiple of the query length 3"):
        CaptureSizes((3, 8, 16), query_len=3)


def test_nothing_left_says_why():
    with pytest.raises(ConfigError, match="no capture size is left; 8: more than"):
        user_sizes([8], max_num_batched_tokens=4)


def test_batches_that_no_size_covers_are_known():
    assert list(default_sizes(100).uncovered(100)) == [97, 98, 99, 100]
    assert not default_sizes(64).uncovered(64)


def test_fit():
    sizes = default_sizes(16)
    assert [sizes.fit(n) for n in (1, 3, 9, 16, 17)] == [1, 4, 16, 16, None]


def test_sizes_budget_and_dispatch_do_not_load_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import aclgraph, aclgraph.sizes, aclgraph.budget, aclgraph.dispatch\n"
        "aclgraph.Dispatcher, aclgraph.default_sizes"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_prints_what_is_covered_and_wasted():
    command = [sys.executable, "-m", "aclgraph", "sizes", "--max-num-seqs", "100"]
    done = subprocess.run([*command, "--layers", "32", "--tp", "4"], capture_output=True, text=True)
    assert "15 sizes: 1, 2, 4, 8" in done.stdout
    assert "batches of 97 to 100 requests run eagerly" in done.stdout
    assert "of decode 96.0%" in done.stdout
    assert "room for 17 sizes" in done.stdout
