"""TileLang RMSNorm [1024, 512] fp16 against torch.nn.functional.rms_norm on the CPU."""

import tilelang
import tilelang.language as T
import torch
from timing import Row, compare

ROWS, HIDDEN, BLOCK, EPS = 1024, 512, 32, 1e-5
REPLAYS = 20  # per synchronise


@tilelang.jit(out_idx=[-1])
def rms_norm(rows, hidden, block, eps):
    per_core = block // 2

    @T.prim_func
    def main_rms(x: T.Tensor((rows, hidden), "float16"), out: T.Tensor((rows, hidden), "float16")):
        with T.Kernel(rows // block, is_npu=True) as (cid, vid):
            row = cid * block + vid * per_core
            x_ub = T.alloc_ub([per_core, hidden], "float16")
            wide = T.alloc_ub([per_core, hidden], "float32")
            square = T.alloc_ub([per_core, hidden], "float32")
            mean = T.alloc_ub([per_core], "float32")
            T.copy(x[row : row + per_core, :], x_ub)
            T.copy(x_ub, wide)
            T.tile.mul(square, wide, wide)
            T.reduce_sum(square, mean, dim=-1)
            T.tile.div(mean, mean, hidden)
            T.tile.add(mean, mean, eps)
            T.tile.sqrt(mean, mean)
            for i in T.serial(0, per_core):
                T.tile.div(wide[i, :], wide[i, :], mean[i])
            T.copy(wide, x_ub)
            T.copy(x_ub, out[row : row + per_core, :])

    return main_rms


def measure() -> list[Row]:
    torch.manual_seed(0)
    cpu = torch.randn(ROWS, HIDDEN).half()
    npu = cpu.npu()
    kernel = rms_norm(ROWS, HIDDEN, BLOCK, EPS)
    kernel(npu)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        output = kernel(npu)

    def replay() -> None:
        for _ in range(REPLAYS):
            graph.replay()
        torch.npu.synchronize()

    def eager() -> None:
        for _ in range(REPLAYS):
            torch.nn.functional.rms_norm(cpu, (HIDDEN,), eps=EPS)

    replay()
    expected = torch.nn.functional.rms_norm(cpu.float(), (HIDDEN,), eps=EPS)
    torch.testing.assert_close(output.float().cpu(), expected, rtol=1e-2, atol=1e-2)
    ours, baseline = compare(replay, eager, REPLAYS, REPLAYS)
    return [Row("TileLang RMSNorm [1024, 512] fp16, replay", ours, baseline, 3.0, "call")]
