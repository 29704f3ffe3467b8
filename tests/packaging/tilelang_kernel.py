"""A TileLang kernel of the adapter dialect between two operators: compiled from the wheel."""

import tilelang
import tilelang.language as T
import torch
import torch_npu  # noqa: F401


@tilelang.jit(out_idx=[-1])
def double(blocks: int, width: int):
    @T.prim_func
    def main(
        x: T.Tensor((2 * blocks, width), "float32"), y: T.Tensor((2 * blocks, width), "float32")
    ):
        with T.Kernel(blocks, is_npu=True) as (cid, vid):
            tile = T.alloc_ub([1, width], "float32")
            with T.Scope("V"):
                T.copy(x[2 * cid + vid, 0], tile)
                T.barrier_all()
                T.tile.add(tile, tile, tile)
                T.barrier_all()
                T.copy(tile, y[2 * cid + vid, 0])

    return main


x = torch.arange(8 * 64, dtype=torch.float32).reshape(8, 64)
y = double(4, 64)(x.npu() + 1) - 1
torch.testing.assert_close(y.cpu(), 2 * x + 1)
print("TileLang kernel: right result")
