"""A TileLang kernel in a decode step: one kernel per bucket, captured, verified."""

import os
import subprocess
import sys

SCRIPT = """
import tilelang
import tilelang.language as T
import torch
from aclgraph import Batch, DecodeRunner, Dispatcher, GraphMode, Input, user_sizes, verify

N = 64

@tilelang.jit(out_idx=[-1])
def scaled(rows, n):
    @T.prim_func
    def main_scaled(x: T.Tensor((rows, n), "float32"), y: T.Tensor((rows, n), "float32")):
        with T.Kernel(rows // 2, is_npu=True) as (cid, vid):
            row = cid * 2 + vid
            ub = T.alloc_ub((1, n), "float32")
            T.copy(x[row : row + 1, :], ub)
            T.tile.mul(ub, ub, FACTOR)
            T.copy(ub, y[row : row + 1, :])

    return main_scaled

kernels = {rows: scaled(rows, N) for rows in (2, 4, 8)}

def step(x):
    rows = x.shape[0]
    even = torch.nn.functional.pad(x, (0, 0, 0, -rows % 2))
    rows += -rows % 2
    kernel = kernels[rows] if rows in kernels else kernels.setdefault(rows, scaled(rows, N))
    return (kernel(even) + 1)[: x.shape[0]]

dispatcher = Dispatcher(GraphMode.FULL_DECODE_ONLY, user_sizes([2, 4, 8]), 8)
runner = DecodeRunner(step, dispatcher, [Input("x", (N,), torch.float32)])
runner.capture()
x = torch.rand(3, N)
out = runner.run(dispatcher.dispatch(Batch.decode(3)), {"x": x})
torch.testing.assert_close(out.cpu(), x * FACTOR + 1)
report = verify(runner, lambda n, seed: {"x": torch.rand(n, N).npu()})
assert report.ok, str(report)
print("cases", report.cases)
"""


def test_a_step_with_a_tilelang_kernel(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("FACTOR", "3.0"))
    command = [sys.executable, "-m", "softnpu", "run", "--tilelang", "adapter", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cases 10" in done.stdout
