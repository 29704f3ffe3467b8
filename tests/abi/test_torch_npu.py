"""The real torch_npu and tilelang wheels on the C interface."""

import importlib.util
import subprocess
from collections.abc import Callable

import pytest

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_npu") is None, reason="torch_npu is not installed"
)

ROUND_TRIP = """
x = torch.empty(4, device="npu")
x.copy_(torch.arange(4.0))
assert x.cpu().tolist() == [0, 1, 2, 3]
print("round trip")
"""


@pytest.mark.parametrize("order", ["torch_npu, tilelang", "tilelang, torch_npu"])
def test_import_orders(run_python: RunPython, order: str) -> None:
    if importlib.util.find_spec("tilelang") is None:
        pytest.skip("tilelang is not installed")
    # tilelang exports some of the runtime's functions itself.
    done = run_python(f"import {order}, torch\n{ROUND_TRIP}")
    assert (done.returncode, done.stdout.strip()) == (0, "round trip"), done.stderr


def test_properties_are_the_socs(run_python: RunPython) -> None:
    done = run_python(
        "import torch\n"
        "p = torch.npu.get_device_properties(1)\n"
        "print(torch.npu.device_count(), p.name, p.cube_core_num, p.vector_core_num,"
        " p.L2_cache_size >> 20, p.total_memory >> 30)"
    )
    assert done.stdout.split() == ["2", "Ascend910B3", "20", "40", "192", "64"], done.stderr


def test_out_of_memory_is_torch_npus_own_error(run_python: RunPython) -> None:
    done = run_python("import torch\ntorch.empty(1 << 42, dtype=torch.int8, device='npu')")
    assert done.returncode == 1
    assert "OutOfMemoryError" in done.stderr


def test_device_out_of_range(run_python: RunPython) -> None:
    done = run_python("import torch\ntorch.npu.set_device(7)")
    assert done.returncode == 1
    assert "there is no device 7, only 0 to 1" in done.stderr


@pytest.mark.parametrize(("queue", "afterwards"), [("0", "-"), ("1", "named")])
def test_operator_without_implementation_is_named(
    run_python: RunPython, queue: str, afterwards: str
) -> None:
    done = run_python(
        "import torch, torch_npu\n"
        "boxes = torch.ones(4, 4).npu()\n"
        "def attempt(call):\n"
        "    try:\n"
        "        call()\n"
        "        print('-')\n"
        "    except RuntimeError as error:\n"
        "        print('named' if 'aclopCompileAndExecute(Iou)' in str(error) else error)\n"
        "attempt(lambda: torch_npu.npu_iou(boxes, boxes).cpu())\n"
        # A task queue is dead now. Without the broken context it would hand out zeros.
        "attempt(lambda: boxes.cpu())\n",
        TASK_QUEUE_ENABLE=queue,
    )
    assert done.stdout.split() == ["named", afterwards], done.stdout + done.stderr


def test_profiling_says_that_it_is_off(run_python: RunPython) -> None:
    done = run_python(
        "import torch, torch_npu\n"
        "profile = torch_npu.profiler.profile()\n"
        "profile.start(); profile.stop()\n"
    )
    assert "aclprofInit is not implemented by softnpu" in done.stderr


def test_data_loader_workers_are_forked_and_work(run_python: RunPython) -> None:
    done = run_python(
        "import torch\n" + ROUND_TRIP + "data = torch.utils.data.TensorDataset(torch.arange(6.0))\n"
        "loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2)\n"
        "print([batch[0].tolist() for batch in loader])\n"
        "torch.npu.synchronize()\n"
    )
    assert done.returncode == 0, done.stderr
    assert "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]" in done.stdout
