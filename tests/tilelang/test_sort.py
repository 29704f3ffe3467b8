"""Sorting instructions: interleaved pairs, padding, ties, and lengths that do not fit."""

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from tests.tilelang.harness import Fault, host_kernel


def pairs(values, index):
    return torch.stack([values, index.to(values.dtype)], dim=1).flatten()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sort_and_topk(dtype):
    @T.prim_func
    def sorts(
        a: T.Tensor((100,), dtype), full: T.Tensor((256,), dtype), best: T.Tensor((20,), dtype),
        padded: T.Tensor((128,), dtype),
    ):  # fmt: skip
        with T.Kernel(1, is_npu=True) as (_, vid):
            src, dst = T.alloc_ub((128,), dtype), T.alloc_ub((256,), dtype)
            top = T.alloc_ub((20,), dtype)
            T.tile.fill(src, 99.0)
            T.copy(a, src[0:100])
            T.tile.topk(top, src, 10, 90)
            T.copy(top, best)
            T.copy(a, src[0:100])
            T.tile.sort(dst, src, 100)
            T.copy(dst, full)
            T.copy(src, padded)

    a = torch.randint(-40, 40, (100,)).to(getattr(torch, dtype))  # with ties
    full, best, padded = host_kernel(sorts, out_idx=[1, 2, 3])(a)
    order = torch.argsort(a, descending=True, stable=True)
    assert torch.equal(full[:200], pairs(a[order], order))
    assert (full[200::2] == -torch.inf).all() and sorted(full[201::2].tolist()) == list(
        range(100, 128)
    )
    order = torch.argsort(a[:90], descending=True, stable=True)[:10]
    assert torch.equal(best, pairs(a[order], order))
    assert torch.equal(padded[:100], a) and (padded[100:] == -torch.inf).all()


@pytest.mark.parametrize("ways", [2, 3, 4])
def test_merge_sort(ways):
    size = 24

    def merge(tiles, out):
        T.tile.merge_sort(out, *tiles)

    @T.prim_func
    def merges(
        a: T.Tensor((ways, 2 * size), "float32"), out: T.Tensor((ways * 2 * size,), "float32")
    ):
        with T.Kernel(1, is_npu=True) as (_, vid):
            src = T.alloc_ub((ways, 2 * size), "float32")
            dst = T.alloc_ub((ways * 2 * size,), "float32")
            T.copy(a, src)
            merge([src[i, :] for i in range(ways)], dst)
            T.copy(dst, out)

    values = torch.randn(ways, size).sort(dim=1, descending=True).values
    a = torch.stack([pairs(row, torch.arange(size) + 100 * i) for i, row in enumerate(values)])
    out = host_kernel(merges, out_idx=[1])(a)
    flat = a.reshape(-1, 2)
    assert torch.equal(out.reshape(-1, 2), flat[torch.argsort(flat[:, 0], descending=True)])


def test_lengths_are_checked():
    @T.prim_func
    def sorts(n: T.int32):
        with T.Kernel(1, is_npu=True) as (_, vid):
            src, dst = T.alloc_ub((40,), "float32"), T.alloc_ub((60,), "float32")
            T.tile.fill(src, 1.0)
            T.tile.sort(dst, src, n)

    with pytest.raises(Fault, match="32 pairs of 32, into a destination of 60 elements"):
        host_kernel(sorts)(20)
    with pytest.raises(Fault, match="40 elements, in blocks of 32, of a source that has 40"):
        host_kernel(sorts)(40)
