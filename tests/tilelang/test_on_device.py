"""Kernels through `tilelang.jit` on the device: order with operators, capture, faults, streams."""

import os
import subprocess
import sys
import textwrap

import pytest
import tilelang
import tilelang.language as T
import torch

ROWS, COLS = 16, 1024


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ASCEND_AUTO_SYNC: True})
def scaled(rows, cols, dtype="float32"):
    @T.prim_func
    def scale_rows(
        x: T.Tensor((rows, cols), dtype), by: T.float32, out: T.Tensor((rows, cols), dtype)
    ):
        with T.Kernel(T.ceildiv(rows, 2), is_npu=True) as (cid, vid):
            tile = T.alloc_ub((1, cols), dtype)
            T.copy(x[cid * 2 + vid, 0], tile)
            T.tile.mul(tile, tile, by)
            T.copy(tile, out[cid * 2 + vid, 0])

    return scale_rows


@tilelang.jit()
def increment(n):
    @T.prim_func
    def add_one(x: T.Tensor((n,), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            tile = T.alloc_ub((n,), "float32")
            if vid == 0:
                T.copy(x, tile)
                T.tile.add(tile, tile, 1.0)
                T.copy(tile, x)

    return add_one


@tilelang.jit(out_idx=[1], workspace_idx=[-1])
def through_workspace(n):
    @T.prim_func
    def staged(
        x: T.Tensor((n,), "float16"), out: T.Tensor((n,), "float16"), ws: T.Tensor((n,), "float16")
    ):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            tile = T.alloc_ub((n,), "float16")
            if vid == 0:
                T.copy(x, tile)
                T.copy(tile, ws)
                T.copy(ws, tile)
                T.copy(tile, out)

    return staged


def test_results_and_devices():
    x = torch.randn(ROWS, COLS)
    out = scaled(ROWS, COLS)(x.npu(), 2.5)
    assert out.device.type == "npu"
    assert torch.equal(out.cpu(), x * 2.5)
    y = torch.randn(64).half()
    assert torch.equal(through_workspace(64)(y.npu()).cpu(), y)
    counter = torch.zeros(8, device="npu")
    assert increment(8)(counter) == []
    assert counter.tolist() == [1.0] * 8
    with pytest.raises(ValueError, match="device mismatch for parameter x: expected npu, got cpu"):
        scaled(ROWS, COLS)(x, 1.0)


def test_second_device():
    x = torch.randn(ROWS, COLS)
    out = scaled(ROWS, COLS)(x.to("npu:1"), 3.0)
    assert out.device == torch.device("npu:1")
    assert torch.equal(out.cpu(), x * 3)


def test_kernels_are_ordered_with_operators():
    """The producer is slow: a kernel that did not wait would read the zeros."""
    a, b = torch.randn(900, 900), torch.randn(900, 900)
    want = a @ b
    kernel = scaled(900, 900)
    x, y, out = a.npu(), b.npu(), torch.zeros(900, 900, device="npu")
    for _ in range(3):
        torch.matmul(x, y, out=out)
        doubled = kernel(out, 2.0)
        halved = doubled * 0.25
        out.zero_()
        torch.testing.assert_close(halved.cpu(), want * 0.5, rtol=1e-3, atol=1e-3)


def test_side_stream_with_events():
    a = torch.randn(700, 700)
    kernel = scaled(700, 700)
    x = a.npu()
    side = torch.npu.Stream()
    y = x @ x
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        z = kernel(y, 0.5)
    torch.npu.current_stream().wait_stream(side)
    torch.testing.assert_close((z + 1).cpu(), (a @ a) * 0.5 + 1, rtol=1e-3, atol=1e-3)


def test_capture_and_replay():
    kernel = scaled(ROWS, COLS)
    x = torch.ones(ROWS, COLS, device="npu")
    counter = torch.zeros(8, device="npu")
    increment(8)(counter)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = kernel(x + 1, 10.0) - 1
        increment(8)(counter)
    torch.npu.synchronize()
    assert counter.tolist() == [1.0] * 8
    for value in (1.0, 4.0):
        x.fill_(value)
        graph.replay()
        assert (y.cpu() == (value + 1) * 10 - 1).all()
    assert counter.tolist() == [3.0] * 8


def test_first_call_inside_a_capture():
    """The kernel is compiled and loaded while the capture is on."""
    x = torch.full((3, 64), 2.0, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = scaled(3, 64)(x, 4.0)
    graph.replay()
    assert (y.cpu() == 8).all()


FAULT = """
import tilelang, tilelang.language as T, torch

@tilelang.jit()
def broken(n):
    @T.prim_func
    def overruns(x: T.Tensor((n, 16), "float32"), row: T.int32):
        with T.Kernel(2, is_npu=True) as (cid, vid):
            tile = T.alloc_ub((16,), "float32")
            T.copy(x[cid + row, :], tile)
            tile[row] = 1.0
            T.copy(tile, x[cid, :])
    return overruns

x = torch.ones(4, 16, device="npu")
broken(4)(x, 0)
print("first", x.cpu()[0, 0].item())
broken(4)(x, 99)
torch.npu.synchronize()
print("never")
"""


@pytest.mark.parametrize("queue", ["0", "1"])
def test_a_fault_fails_the_task_and_not_the_process(tmp_path, queue):
    script = tmp_path / "faulty.py"
    script.write_text(textwrap.dedent(FAULT))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "TASK_QUEUE_ENABLE": queue},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("first 1.0") and "never" not in done.stdout
    for part in ("507015", "kernel overruns, block 0, core AIV0", "index 99", "tile[16]",
                 "faulty.py:11:13"):  # fmt: skip
        assert part in done.stderr, part
