"""The decode block of example 08 as a graph, against the same arithmetic in CPU PyTorch eager."""

import argparse
import importlib.util
import math
from pathlib import Path
from types import ModuleType

import torch
from timing import Row, compare
from torch.overrides import TorchFunctionMode

STEPS = 32
EXAMPLE = Path(__file__).parent.parent / "examples/08-ascend-aclgraph/aclgraph_decode_block.py"


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("aclgraph_decode_block", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments() -> argparse.Namespace:
    return argparse.Namespace(
        batch=16, heads=16, head_size=64, hidden=1024, steps=STEPS, auto_cv_combine=True
    )


def make_weights(args: argparse.Namespace) -> dict[str, torch.Tensor]:
    scale = 1.0 / math.sqrt(args.hidden)
    weights = {name: torch.randn(args.hidden, args.hidden) * scale for name in "qkvo"}
    weights["norm"] = torch.ones(1, args.hidden)
    return weights


def cpu_rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight[0], 1e-5)


def cpu_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    low, high = x.float().chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    x.copy_(torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1))


class WideProducts(TorchFunctionMode):
    """Half-precision products in fp32, rounded once: what softnpu's operators do.

    On a CPU without fp16 instructions PyTorch's own half product can be a hundred times slower, so
    that a ratio to it says little; this is the baseline that shares our arithmetic.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (torch.mm, torch.bmm):
            return function(args[0].float(), args[1].float()).half()
        return function(*args, **(kwargs or {}))


def measure() -> list[Row]:
    torch.manual_seed(0)
    example = load_example()
    args = arguments()
    weights = make_weights(args)
    tokens = torch.randn(STEPS, args.batch, args.hidden).half()
    positions = torch.arange(STEPS).view(-1, 1)

    device = example.DecodeBlock(args, weights, "npu")
    replay = example.capture(device)
    npu_tokens, npu_positions = tokens.npu(), positions.npu()

    host = example.DecodeBlock.__new__(example.DecodeBlock)
    build = (example.build_rms_norm, example.build_rope)
    example.build_rms_norm = lambda *_: cpu_rms_norm
    example.build_rope = lambda *_: cpu_rope
    host.__init__(args, weights, "cpu")
    example.build_rms_norm, example.build_rope = build

    def steps_of(block, run, tokens, positions, synchronize=None):
        def steps() -> None:
            for token, position in zip(tokens, positions, strict=True):
                block.feed(token, position)
                run()
                if synchronize:
                    synchronize()
            torch.npu.synchronize()

        return steps

    graph = steps_of(device, replay, npu_tokens, npu_positions)
    graph_sync = steps_of(device, replay, npu_tokens, npu_positions, torch.npu.synchronize)
    eager = steps_of(device, device.step, npu_tokens, npu_positions)
    plain = steps_of(host, host.step, tokens, positions)

    def wide() -> None:
        with WideProducts():
            plain()

    graph()
    plain()
    last = replay().float().cpu()
    torch.testing.assert_close(last, host.step().float(), rtol=1e-2, atol=1e-2)
    rows = []
    same = "CPU torch, fp32 products"
    for what, run, against, name, target in (
        ("decode block (batch 16, 16 heads of 64), replay", graph, plain, "CPU torch", 1.0),
        ("the same", graph, wide, same, 1.0),
        ("the same, with a synchronise per step", graph_sync, wide, same, None),
        ("the same, eager through torch_npu", eager, wide, same, None),
    ):
        ours, baseline = compare(run, against, STEPS, STEPS, rounds=3 if against is plain else 7)
        rows.append(Row(what, ours, baseline, target, "step", name))
    return rows
