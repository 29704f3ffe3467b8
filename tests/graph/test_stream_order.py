"""A TileLang kernel between torch_npu's operators: same stream, same order, also in a graph."""

import os
import subprocess
import sys

KERNEL = """
import tilelang
import tilelang.language as T
import torch

N = 4096

@tilelang.jit(out_idx=[-1])
def doubled(n):
    @T.prim_func
    def main_double(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(n // 1024, is_npu=True) as (cid, vid):
            at = cid * 1024 + vid * 512
            ub = T.alloc_ub((512,), "float32")
            T.copy(x[at : at + 512], ub)
            T.tile.mul(ub, ub, 2.0)
            T.copy(ub, y[at : at + 512])

    return main_double

kernel = doubled(N)
"""


def run(tmp_path, body, **environment):
    script = tmp_path / "script.py"
    script.write_text(KERNEL + body)
    command = [sys.executable, "-m", "softnpu", "run", "--tilelang", "adapter", str(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


SLOW_PRODUCER = """
weight = torch.full((512, 512), 1 / 512, device="npu")
def body(start):
    slow = start
    for _ in range(20):
        slow = slow @ weight      # keeps its value: rows of ones times a mean
    x = slow.reshape(-1)[:N] + 1
    return kernel(x) + 1
start = torch.ones(512, 512, device="npu")
"""


def test_a_kernel_sees_what_a_slow_producer_before_it_wrote(tmp_path):
    for queue in ("0", "1"):
        out = run(
            tmp_path,
            SLOW_PRODUCER + "print(body(start).cpu().sub(5).abs().max().item() < 1e-3)",
            TASK_QUEUE_ENABLE=queue,
        )
        assert out == "True"


def test_the_same_in_a_graph(tmp_path):
    body = """
body(start)
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    out = body(start)
start.fill_(2.0)
graph.replay()
print(out.cpu().sub(7).abs().max().item() < 1e-3)
"""
    assert run(tmp_path, SLOW_PRODUCER + body) == "True"


OTHER_STREAM = """
x = torch.zeros(N, device="npu")
kernel(x)
side = torch.npu.Stream()
torch.npu.synchronize()
x.fill_(3.0)
{order}
with torch.npu.stream(side):
    y = kernel(x)
torch.npu.synchronize()
print(y.cpu()[0].item())
"""


def test_a_kernel_on_another_stream_without_an_event_races(tmp_path):
    seen = set()
    for seed in range(12):  # a process each: stop as soon as both orders have been seen
        seen.add(run(tmp_path, OTHER_STREAM.format(order=""), SOFTNPU_SEED=str(seed)))
        if len(seen) == 2:
            break
    assert seen == {"0.0", "6.0"}


def test_with_an_event_it_never_races(tmp_path):
    order = "side.wait_stream(torch.npu.current_stream())"
    seen = {run(tmp_path, OTHER_STREAM.format(order=order), SOFTNPU_SEED=seed) for seed in "012"}
    assert seen == {"6.0"}


def test_a_seed_fixes_the_outcome(tmp_path):
    outcomes = [run(tmp_path, OTHER_STREAM.format(order=""), SOFTNPU_SEED="3") for _ in range(2)]
    assert len(set(outcomes)) == 1
