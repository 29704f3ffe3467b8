"""Each mistake ends in one clear error: exit code not 0, no hang, and the culprit is named.

Every case is a script of its own, since a device error stays in its process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(tmp_path, script, *options, **environment):
    path = tmp_path / "script.py"
    path.write_text("import torch, torch_npu\n" + script)
    command = [sys.executable, "-m", "softnpu", "run", *options, str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


def refused(done, *words):
    assert done.returncode not in (0, None)
    assert done.returncode > 0, "the process was killed by a signal"
    for word in words:
        assert word in done.stderr, done.stderr
    assert "/src/softnpu/" not in done.stderr, "a traceback through our internals"
    return done


@pytest.mark.parametrize(
    ("queue", "reading"),
    [
        ("0", "torch.npu.synchronize()"),
        ("1", "torch.npu.synchronize()"),
        ("0", "print(y)"),
        ("1", "y.cpu()"),
        ("1", "y.sum().item()"),
    ],
)
def test_an_operator_that_fails_on_the_device_is_named_at_the_next_wait(tmp_path, queue, reading):
    script = f"""
x = torch.arange(4.0).npu()
index = torch.tensor([1, 99]).npu()
y = torch.index_select(x, 0, index)
for _ in range(3):
    y = y + 1
{reading}
print("went on")
"""
    done = refused(run(tmp_path, script, TASK_QUEUE_ENABLE=queue), "aclnnIndexSelect")
    assert "went on" not in done.stdout


@pytest.mark.parametrize("queue", ["0", "1"])
def test_a_device_error_sticks(tmp_path, queue):
    script = """
x = torch.arange(4.0).npu()
y = torch.index_select(x, 0, torch.tensor([99]).npu())
failures = 0
for wait in (torch.npu.synchronize, y.cpu, (lambda: (x + 1).cpu()), torch.npu.synchronize):
    try:
        wait()
    except RuntimeError as error:
        failures += "aclnnIndexSelect" in str(error)
print("failures", failures)
"""
    done = run(tmp_path, script, TASK_QUEUE_ENABLE=queue)
    assert "failures 4" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("queue", ["0", "1"])
def test_an_operator_that_is_not_implemented_names_itself(tmp_path, queue):
    script = """
x = torch.randn(1, 3, 8, 8).npu()
y = torch.ops.npu.npu_iou(torch.rand(4, 4).npu(), torch.rand(4, 4).npu(), 0)
print(y.cpu())
print("went on")
"""
    done = refused(run(tmp_path, script, TASK_QUEUE_ENABLE=queue), "Iou")
    assert "went on" not in done.stdout


def test_out_of_device_memory(tmp_path):
    script = """
kept = []
try:
    while True:
        kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="npu"))
except torch.OutOfMemoryError as error:
    print("stopped at", len(kept), "blocks")
    raise
"""
    done = run(tmp_path, script, SOFTNPU_HBM_BYTES=str(1 << 30))
    refused(done, "out of memory")
    assert "stopped at 15 blocks" in done.stdout or "stopped at 16 blocks" in done.stdout


def test_memory_can_be_had_again_after_running_out(tmp_path):
    script = """
try:
    torch.empty(2 << 30, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError:
    pass
print(torch.ones(4, device="npu").sum().item())
"""
    done = run(tmp_path, script, SOFTNPU_HBM_BYTES=str(1 << 30))
    assert done.returncode == 0, done.stderr
    assert "4.0" in done.stdout


def test_a_device_that_does_not_exist(tmp_path):
    refused(run(tmp_path, 'torch.ones(2, device="npu:7")', "--devices", "2"), "2")


def test_capture_without_an_end_does_not_hang_the_exit(tmp_path):
    script = """
stream = torch.npu.Stream()
graph = torch.npu.NPUGraph()
x = torch.ones(4, device="npu")
torch.npu.set_stream(stream)
graph.capture_begin()
x + 1
print("leaving")
"""
    done = run(tmp_path, script)
    assert "leaving" in done.stdout
    assert done.returncode >= 0


def test_replay_before_capture(tmp_path):
    refused(run(tmp_path, "torch.npu.NPUGraph().replay()"), "capture")


def test_a_graph_whose_memory_is_gone_says_so(tmp_path):
    script = """
import ctypes
acl = ctypes.CDLL("libascendcl.so")
x = torch.ones(1 << 20, device="npu")
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    x.add_(1)
graph.replay()
torch.npu.synchronize()
address = x.data_ptr()
del x
torch.npu.empty_cache()
graph.replay()
torch.npu.synchronize()
"""
    refused(run(tmp_path, script), "graph", "add", "keep the tensors alive")


def test_a_forked_worker_that_never_touches_the_device_works(tmp_path):
    script = """
from torch.utils.data import DataLoader, TensorDataset
x = torch.ones(4, device="npu") + 1
batches = [b[0] for b in DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, num_workers=2)]
print(torch.cat(batches).npu().sum().item() + x.sum().item())
"""
    done = run(tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert "36.0" in done.stdout


def test_a_forked_child_that_touches_the_device_is_told(tmp_path):
    script = """
import ctypes, os
x = torch.ones(4, device="npu")
torch.npu.synchronize()
pid = os.fork()
if pid == 0:
    acl = ctypes.CDLL("libascendcl.so")
    acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
    code = acl.aclrtSynchronizeDevice()
    print(code, (acl.aclGetRecentErrMsg() or b"").decode(), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    done = run(tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert "fork" in done.stdout and not done.stdout.startswith("0 ")
