"""npu_fused_infer_attention_score (_v2) and its older relatives against float64, eagerly."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu

from tests.ops.attention_reference import (
    Sequence,
    attention,
    block_table,
    make_batch,
    pack,
    page,
    unpack,
    visible_keys,
)

# One rounding of the output: half a unit in the last place of values up to 4.
TOLERANCE = {torch.float16: (2e-3, 1e-3), torch.bfloat16: (1.6e-2, 8e-3)}
COMPRESSED = torch.triu(torch.ones(2048, 2048, dtype=torch.bool), 1)


def cumulative(lens: list[int]) -> list[int]:
    return torch.tensor(lens).cumsum(0).tolist()


def call(batch: list[Sequence], layout: str, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The operator on a batch; ``cache`` and ``block_size`` page it, other options pass through."""
    source, packed = layout.split("_")[0], layout[0] == "T" or layout[:3] == "NTD"
    q_lens = [s.query.shape[1] for s in batch]
    kv_lens = [s.key.shape[1] for s in batch]
    cache = options.pop("cache", None)
    args = {
        "num_heads": batch[0].query.shape[0],
        "num_key_value_heads": batch[0].key.shape[0],
        "scale": 1 / math.sqrt(batch[0].query.shape[2]),
        "input_layout": layout,
        "actual_seq_lengths": cumulative(q_lens) if packed else q_lens,
        "actual_seq_lengths_kv": cumulative(kv_lens) if packed and not cache else kv_lens,
    }
    query = pack([s.query for s in batch], source)
    if cache:
        table = block_table(kv_lens, options["block_size"])
        key = page([s.key for s in batch], options["block_size"], table, cache)
        value = page([s.value for s in batch], options["block_size"], table, cache)
        args["block_table"] = table.npu()
    else:
        key = pack([s.key for s in batch], source, 1)
        value = pack([s.value for s in batch], source, 1)
    args |= {k: v.npu() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    return torch_npu.npu_fused_infer_attention_score(query.npu(), key.npu(), value.npu(), **args)


def check(
    batch: list[Sequence], layout: str, out: torch.Tensor, seen: list[Any] | None = None
) -> None:
    dtype = batch[0].query.dtype
    atol, rtol = TOLERANCE[dtype]
    parts = unpack(
        out.cpu(), layout.split("_")[-1], [s.query.shape[1] for s in batch], batch[0].query.shape[0]
    )
    for b, seq in enumerate(batch):
        expected, _ = attention(
            seq, 1 / math.sqrt(seq.query.shape[2]), seen[b] if seen is not None else None
        )
        assert parts[b].dtype == dtype
        torch.testing.assert_close(parts[b].double(), expected, atol=atol, rtol=rtol)


def seen_keys(batch: list[Sequence], mode: int, **how: Any) -> list[torch.Tensor]:
    pre, after, mask = how.get("pre", 2**31 - 1), how.get("after", 2**31 - 1), how.get("mask")
    return [visible_keys(mode, s.query.shape[1], s.key.shape[1], pre, after, mask) for s in batch]


LAYOUTS = ["BSH", "BNSD", "BSND", "BNSD_BSND", "TND", "NTD_TND", "TND_NTD", "BSH_NBSD", "BSND_BNSD"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("heads", [(4, 4), (8, 2)], ids=["mha", "gqa"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, heads: tuple[int, int], dtype: torch.dtype) -> None:
    batch = make_batch([5, 7, 1], [9, 7, 33], *heads, 64, dtype)
    out, _ = call(batch, layout)
    check(batch, layout, out)


@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("heads", [(4, 4), (8, 2)], ids=["mha", "gqa"])
@pytest.mark.parametrize(
    ("layout", "cache"),
    [("BSH", None), ("BNSD", None), ("BSND", None), ("TND", None), ("BSH", "BnBsH"),
     ("BSND", "BnBsH"), ("BNSD", "BnBsH"), ("BNSD", "BnNBsD"), ("TND", "BnBsH"), ("TND", "BnNBsD")],
)  # fmt: skip
def test_masks(layout: str, cache: str | None, heads: tuple[int, int], mode: int) -> None:
    batch = make_batch([6, 3, 20], [8, 130, 20], *heads, 128, torch.float16)
    how: dict[str, Any] = {"pre": 5, "after": 2}
    options: dict[str, Any] = {"sparse_mode": mode, "pre_tokens": 5, "next_tokens": 2}
    if mode < 2:
        how["mask"] = torch.rand(20, 256) < 0.3
        how["mask"][:, 0] = False
        options["atten_mask"] = how["mask"][None, None] if layout == "TND" or cache else how["mask"]
        if not cache and layout != "TND":
            options["atten_mask"] = options["atten_mask"][:, :130].contiguous()
    else:
        options["atten_mask"] = COMPRESSED
    if cache:
        options |= {"cache": cache, "block_size": 128}
    out, _ = call(batch, layout, **options)
    check(batch, layout, out, seen_keys(batch, mode, **how))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize(
    ("layout", "cache"),
    [("BSH", None), ("BNSD", None), ("TND", None), ("BSH", "BnBsH"), ("BNSD", "BnNBsD"),
     ("TND", "BnBsH")],
)  # fmt: skip
def test_decode_with_lengths_zero_one_and_odd(
    layout: str, cache: str | None, dtype: torch.dtype
) -> None:
    """One query per sequence, 16 heads; a sequence without keys gives zeros."""
    batch = make_batch([1] * 5, [0, 1, 37, 256, 129], 16, 4, 128, dtype)
    options = {"cache": cache, "block_size": 16} if cache else {}
    out, _ = call(batch, layout, **options)
    check(batch, layout, out)


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_sequences_without_queries(layout: str) -> None:
    batch = make_batch([0, 3, 0, 2], [4, 0, 7, 5], 4, 2, 64, torch.float16)
    out, _ = call(batch, layout)
    check(batch, layout, out)


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_long_prefill_in_blocks(layout: str) -> None:
    """More query rows than one matrix product takes, causal, GQA."""
    batch = make_batch([300, 17], [300, 401], 8, 2, 64, torch.bfloat16)
    out, _ = call(batch, layout, sparse_mode=3, atten_mask=COMPRESSED)
    check(batch, layout, out, seen_keys(batch, 3))


@pytest.mark.parametrize("layout", ["BSH", "BNSD", "TND"])
def test_softmax_lse(layout: str) -> None:
    """Rows that see nothing: output 0, log-sum-exp +inf."""
    batch = make_batch([3, 4], [2, 6], 4, 2, 64, torch.float16)
    out, lse = call(batch, layout, sparse_mode=3, atten_mask=COMPRESSED, softmax_lse_flag=True)
    seen = seen_keys(batch, 3)
    check(batch, layout, out, seen)
    assert lse.dtype == torch.float32
    assert list(lse.shape) == ([7, 4, 1] if layout == "TND" else [2, 4, 4, 1])
    for b, seq in enumerate(batch):
        _, expected = attention(seq, 1 / 8, seen[b])
        rows = slice(0, 3) if b == 0 else slice(3, 7)
        got = lse[rows, :, 0].t() if layout == "TND" else lse[b, :, : seq.query.shape[1], 0]
        torch.testing.assert_close(got.cpu().double(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("flag", [False, True])
def test_version_2_takes_its_own_names(flag: bool) -> None:
    batch = make_batch([4, 2], [4, 9], 8, 2, 128, torch.bfloat16)
    q, k, v = (pack([getattr(s, n) for s in batch], "TND").npu() for n in ("query", "key", "value"))
    out, lse = torch_npu.npu_fused_infer_attention_score_v2(
        q, k, v, actual_seq_qlen=[4, 6], actual_seq_kvlen=[4, 13], num_query_heads=8,
        num_key_value_heads=2, softmax_scale=1 / math.sqrt(128), input_layout="TND",
        return_softmax_lse=flag,
    )  # fmt: skip
    check(batch, "TND", out)
    assert lse.numel() == (48 if flag else 0)


def test_learnable_sink() -> None:
    batch = make_batch([3, 5], [3, 9], 8, 8, 128, torch.bfloat16)
    sink = torch.randn(8).bfloat16()
    q, k, v = (pack([getattr(s, n) for s in batch], "TND").npu() for n in ("query", "key", "value"))
    out, _ = torch_npu.npu_fused_infer_attention_score_v2(
        q, k, v, learnable_sink=sink.npu(), actual_seq_qlen=[3, 8], actual_seq_kvlen=[3, 12],
        num_query_heads=8, softmax_scale=1 / math.sqrt(128), input_layout="TND",
    )  # fmt: skip
    for seq in batch:
        seq.extra["sink"] = sink
    check(batch, "TND", out)


@pytest.mark.parametrize(("heads", "dim"), [((8, 1), 512), ((4, 4), 128)], ids=["512", "128"])
@pytest.mark.parametrize(
    ("layout", "cache"), [("BNSD", None), ("TND", None), ("TND", "BnBsH"), ("BSH", "BnBsH")]
)
def test_rope_parts_of_latent_attention(
    layout: str, cache: str | None, heads: tuple[int, int], dim: int
) -> None:
    """The scores are those of the concatenated vectors; value has head size D alone."""
    whole = make_batch([1, 1, 1], [1, 37, 130], *heads, dim + 64, torch.float16, dim)
    q, k = ([getattr(s, n) for s in whole] for n in ("query", "key"))
    args: dict[str, Any] = {"actual_seq_lengths": [1, 2, 3], "actual_seq_lengths_kv": [1, 37, 130]}
    if layout == "TND" and not cache:
        args["actual_seq_lengths_kv"] = [1, 38, 168]
    if cache:
        table = block_table([1, 37, 130], 128)
        args |= {"block_table": table.npu(), "block_size": 128}

    def keys(parts: list[torch.Tensor]) -> torch.Tensor:
        return (page(parts, 128, table, cache) if cache else pack(parts, layout)).npu()

    out, _ = torch_npu.npu_fused_infer_attention_score(
        pack([x[..., :dim] for x in q], layout).npu(), keys([x[..., :dim] for x in k]),
        keys([s.value for s in whole]), query_rope=pack([x[..., dim:] for x in q], layout).npu(),
        key_rope=keys([x[..., dim:] for x in k]), num_heads=heads[0], num_key_value_heads=heads[1],
        scale=1 / math.sqrt(dim + 64), input_layout=layout, **args,
    )  # fmt: skip
    check(whole, layout, out)


def test_padding_on_the_left() -> None:
    """The sequence ends `padding` rows before the end of the tensor."""
    seq = make_batch([3], [5], 4, 4, 64, torch.float16)[0]
    q, k, v = (torch.full((1, 4, 8, 64), float("nan")).half() for _ in range(3))
    q[:, :, 4:7], k[:, :, 1:6], v[:, :, 1:6] = seq.query, seq.key, seq.value
    out, _ = torch_npu.npu_fused_infer_attention_score(
        q.npu(), k.npu(), v.npu(), num_heads=4, scale=1 / 8, input_layout="BNSD",
        actual_seq_lengths=[3], actual_seq_lengths_kv=[5],
        query_padding_size=torch.tensor([1]).npu(), kv_padding_size=torch.tensor([2]).npu(),
    )  # fmt: skip
    check([seq], "BNSD", out[:, :, 4:7].cpu())
    assert (out[:, :, :4].cpu() == 0).all()


def test_position_bias() -> None:
    batch = make_batch([4, 4], [9, 9], 4, 2, 64, torch.float16)
    bias = torch.randn(2, 4, 4, 9).half()
    out, _ = call(batch, "BSND", pse_shift=bias)
    for b, seq in enumerate(batch):
        seq.extra["bias"] = bias[b]
    check(batch, "BSND", out)


def test_decode_mask_per_sequence() -> None:
    batch = make_batch([1, 1], [9, 9], 4, 2, 64, torch.float16)
    mask = torch.rand(2, 9) < 0.4
    mask[:, 3] = False
    out, _ = call(batch, "BNSD", atten_mask=mask)
    check(batch, "BNSD", out, [~m[None] for m in mask])


def test_prompt_and_incremental_attention() -> None:
    batch = make_batch([5, 5], [8, 8], 4, 2, 64, torch.float16)
    q, k, v = (
        pack([getattr(s, n) for s in batch], "BNSD").npu() for n in ("query", "key", "value")
    )
    args = {"num_heads": 4, "num_key_value_heads": 2, "scale_value": 1 / 8, "input_layout": "BNSD"}
    out = torch_npu.npu_prompt_flash_attention(q, k, v, **args)
    check(batch, "BNSD", out)
    out = torch_npu.npu_incre_flash_attention(
        q[:, :, :1].contiguous(), k, v, actual_seq_lengths=[3, 8], **args
    )
    short = [
        Sequence(s.query[:, :1], s.key[:, :n], s.value[:, :n])
        for s, n in zip(batch, (3, 8), strict=True)
    ]
    check(short, "BNSD", out)


def test_only_real_tokens_are_read() -> None:
    """A cache of a million tokens costs what the one token in it costs, and garbage is not met."""
    table = torch.zeros(1, 8192, dtype=torch.int32).npu()
    cache = torch.full((2, 128, 64), float("nan")).half()
    cache[0, 0] = 1
    out, _ = torch_npu.npu_fused_infer_attention_score(
        torch.ones(1, 1, 64).half().npu(), cache.npu(), cache.npu(), num_heads=1, scale=1.0,
        input_layout="BSH", block_table=table[:, :2048].contiguous(), block_size=128,
        actual_seq_lengths_kv=[1],
    )  # fmt: skip
    assert (out.cpu() == 1).all()


def _tensor(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype).npu()


_PAGED = {"block_size": 128, "input_layout": "BSH", "actual_seq_lengths_kv": [5, 5]}
_WRONG = {
    "heads": ({"num_heads": 3}, "'query' has shape .* expected 3 heads, got 4"),
    "kv_heads": ({"num_key_value_heads": 3}, "'num_key_value_heads' is 3, expected a divisor"),
    "layout": ({"input_layout": "BDSN"}, "BDSN|layout only support"),
    "lengths": (
        {"actual_seq_lengths": [9, 1]},
        r"'actual_seq_lengths'\[0\] is 9, expected 0 to 6",
    ),
    "lengths_kv": (
        {"actual_seq_lengths_kv": [8, 10]}, r"'actual_seq_lengths_kv'\[1\] is 10, expected 0 to 9"
    ),
    "sparse_mode": ({"sparse_mode": 5}, "'sparse_mode' is 5, implemented are 0 to 4"),
    "no_mask": ({"sparse_mode": 3}, "'atten_mask' is missing, 'sparse_mode' 3"),
    "mask_shape": (
        {"sparse_mode": 3, "atten_mask": (6, 9, torch.bool)},
        r"'atten_mask' has shape \[6, 9\].*\[2048, 2048\]",
    ),
    "mask_dtype": ({"atten_mask": (6, 9, torch.float16)}, "'atten_mask' is Half, expected bool"),
    "inner_precise": ({"inner_precise": 4}, "'inner_precise' is 4, expected 0 to 3"),
    "rope": ({"query_rope": (2, 4, 6, 64, torch.float16)}, "'key_rope' is missing"),
    "quantised": ({"quant_scale2": (1, torch.float32)}, "'quant_scale2' is not implemented"),
    "antiquant": (
        {"antiquant_scale": (2, torch.float16)}, "'antiquant_scale' is not implemented"
    ),
    "prefix": (
        {"key_shared_prefix": (1, 4, 2, 64, torch.float16)}, "'key_shared_prefix' is not"
    ),
    "padding": ({"query_padding_size": (1, torch.int64)}, "needs 'actual_seq_lengths'"),
}  # fmt: skip


@pytest.mark.parametrize("name", _WRONG)
def test_a_wrong_argument_is_named_at_the_call(name: str) -> None:
    options, text = _WRONG[name]
    args = {
        k: _tensor(*v[:-1], dtype=v[-1]) if isinstance(v, tuple) else v for k, v in options.items()
    }
    args = {"num_heads": 4, "input_layout": "BNSD"} | args
    with pytest.raises(RuntimeError, match=text):
        torch_npu.npu_fused_infer_attention_score(
            _tensor(2, 4, 6, 64), _tensor(2, 4, 9, 64), _tensor(2, 4, 9, 64), **args
        )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"actual_seq_lengths": [2, 5]},
            "ends with 5, expected the number of tokens in 'query', 6",
        ),
        ({"actual_seq_lengths": [4, 2]}, r"'actual_seq_lengths'\[1\] is 2, expected at least 4"),
        ({"actual_seq_lengths": [6]}, "has 2 entries, expected as many as 'actual_seq_lengths', 1"),
        ({"actual_seq_lengths_kv": [4, 10]}, "'actual_seq_lengths_kv' ends with 10, 'key' has 9"),
        ({"actual_seq_lengths": []}, "'actual_seq_lengths' has 0 entries"),
    ],
)
def test_wrong_running_sums(options: dict[str, Any], text: str) -> None:
    args = {"actual_seq_lengths": [2, 6], "actual_seq_lengths_kv": [4, 9]} | options
    with pytest.raises(RuntimeError, match=text):
        torch_npu.npu_fused_infer_attention_score(
            _tensor(6, 4, 64), _tensor(9, 4, 64), _tensor(9, 4, 64), num_heads=4,
            input_layout="TND", **args,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "cache", "text"),
    [
        ({"block_size": 64}, (4, 64, 256), "'block_size' is 64, expected a multiple of 128"),
        ({"block_size": 128}, (4, 64, 256), "'key' has blocks of 64 tokens .* 'block_size' is 128"),
        ({}, (4, 4, 128, 64), "a paged cache is .blocks, block_size, H"),
        ({}, (4, 4, 4, 128, 16), "NZ format of a paged cache is not implemented"),
        ({"actual_seq_lengths_kv": None}, (4, 128, 256), "'actual_seq_lengths_kv' is missing"),
        ({"actual_seq_lengths_kv": [5, 300]}, (4, 128, 256), r"\[1\] is 300, expected 0 to 256"),
        ({"block_table": (3, 2, torch.int32)}, (4, 128, 256), "'block_table' has 3 rows"),
        ({"block_table": (2, 2, torch.int64)}, (4, 128, 256), "'block_table' is Long"),
    ],
)  # fmt: skip
def test_wrong_paged_cache(options: dict[str, Any], cache: tuple[int, ...], text: str) -> None:
    args = _PAGED | {"block_table": (2, 2, torch.int32)} | options
    shape = args["block_table"]
    args["block_table"] = _tensor(*shape[:-1], dtype=shape[-1])
    with pytest.raises(RuntimeError, match=text):
        torch_npu.npu_fused_infer_attention_score(
            _tensor(2, 6, 256), _tensor(*cache), _tensor(*cache), num_heads=4, **args
        )


_FOREIGN_BLOCK = """
import torch, torch_npu
cache = torch.zeros(4, 128, 256).half().npu()
torch_npu.npu_fused_infer_attention_score(
    torch.zeros(1, 1, 256).half().npu(), cache, cache, num_heads=4, block_size=128,
    block_table=torch.tensor([[3, 7]], dtype=torch.int32).npu(), actual_seq_lengths_kv=[129],
)
torch.npu.synchronize()
"""


def test_a_block_that_the_cache_lacks_is_a_device_error(tmp_path: Path) -> None:
    """In a process of its own, which the error ends."""
    script = tmp_path / "script.py"
    script.write_text(_FOREIGN_BLOCK)
    done = subprocess.run(
        [sys.executable, "-m", "softnpu", "run", str(script)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode > 0
    assert "'block_table'[0][1] is 7, but the cache has 4 blocks" in done.stderr


@pytest.mark.parametrize("queries", [1, 40], ids=["by_rows", "by_products"])
def test_nan_among_the_visible_keys_reaches_the_output(queries: int) -> None:
    key = torch.ones(1, 1, 9, 64).half()
    key[0, 0, 4] = float("nan")
    out, _ = torch_npu.npu_fused_infer_attention_score(
        torch.ones(1, 1, queries, 64).half().npu(), key.npu(), torch.ones(1, 1, 9, 64).half().npu(),
        num_heads=1, scale=1.0, input_layout="BNSD",
    )  # fmt: skip
    assert out.isnan().all()
