"""What an operator refuses, where it says so, and that nothing is written then."""

from __future__ import annotations

import ctypes as C
from typing import Any

import pytest
import torch

from tests.ops import aclnn

NULL_POINTER, PARAM_INVALID = 161001, 161002


def add(**changes: Any) -> dict[str, Any]:
    given = {"self": torch.ones(2, 3), "other": torch.ones(2, 3), "alpha": 1,
             "out": torch.zeros(2, 3)}  # fmt: skip
    return given | changes


def refused(name: str, values: dict[str, Any]) -> aclnn.AclnnError:
    with pytest.raises(aclnn.AclnnError) as caught:
        aclnn.call(name, values)
    assert name in caught.value.text
    return caught.value


def test_a_null_tensor_is_refused_at_once() -> None:
    error = refused("aclnnAdd", add(other=None))
    assert error.code == NULL_POINTER and "'other' is null" in error.text


def test_an_internal_format_is_refused_at_once() -> None:
    x = torch.ones(16, 16)
    dev, fractal_nz = aclnn.device(), 29
    arguments = [aclnn.make_tensor(x, fractal_nz), aclnn.make_tensor(x.clone())]
    size, executor = C.c_uint64(), C.c_void_p()
    code = dev.ops.aclnnExpGetWorkspaceSize(*arguments, C.byref(size), C.byref(executor))
    assert code == PARAM_INVALID and not executor.value
    text = dev.error_text()
    assert "aclnnExp: 'self' has the internal format 29" in text and "allow_internal_format" in text


def test_a_dtype_without_arithmetic_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    int4 = 29
    monkeypatch.setitem(aclnn.ACL_DTYPES, torch.int8, int4)
    error = refused("aclnnAdd", add(self=torch.ones(2, 3, dtype=torch.int8)))
    assert error.code == PARAM_INVALID and "'self' has aclDataType 29" in error.text


def test_a_stub_names_itself_and_its_reason() -> None:
    x = torch.ones(4, 4)
    values = {"self": x, "mat2": x, "out": x.clone(), "cube_math_type": 0}
    error = refused("aclnnMatmulWeightNz", values)
    assert error.code == PARAM_INVALID and "FRACTAL_NZ" in error.text


def test_a_wrong_number_for_a_mode_is_refused_at_once() -> None:
    x = torch.ones(3)
    error = refused("aclnnDivMod", {"self": x, "other": x, "mode": 7, "out": x.clone()})
    assert error.code == PARAM_INVALID and "'mode' is 7, known are 0 to 2" in error.text


@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (6,), (1,)])
def test_an_output_is_never_resized(shape: tuple[int, ...]) -> None:
    """The memory is the caller's: the task fails, names both shapes, and has written nothing."""
    out = torch.full(shape, 7.0)
    error = refused("aclnnAdd", add(out=out))
    assert error.code == 0
    assert str(list(shape)) in error.text and "[2, 3]" in error.text
    assert (out == 7).all()


def test_a_copied_result_of_another_shape_fails() -> None:
    out = torch.full((3,), 7.0)
    error = refused("aclnnIsFinite", {"self": torch.ones(2), "out": out})
    assert "output 'out' has shape [3], the operator computes [2]" in error.text
    assert (out == 7).all()


def test_shapes_that_do_not_broadcast_fail_on_the_device() -> None:
    error = refused("aclnnAdd", add(other=torch.ones(4)))
    assert error.code == 0 and "must match the size" in error.text


def test_an_index_out_of_range_fails_on_the_device() -> None:
    values = {
        "self": torch.ones(3, 2),
        "dim": 0,
        "index": torch.tensor([5]),
        "out": torch.zeros(1, 2),
    }
    assert "out of range" in refused("aclnnIndexSelect", values).text


@pytest.mark.parametrize("counts", [[1, -2, 3], [-1, -1, -1]])
def test_negative_repeats_fail_on_the_device(counts: list[int]) -> None:
    size = max(sum(counts), 0)
    values = {
        "self": torch.ones(3),
        "repeats": torch.tensor(counts),
        "output_size": size,
        "out": torch.zeros(size),
    }
    assert "must not be negative" in refused("aclnnRepeatInterleave", values).text


def test_an_executor_runs_only_its_own_function() -> None:
    dev, values = aclnn.device(), add()
    row = aclnn.table()["aclnnAdd"]
    arguments = [aclnn.make_argument(p.kind, values[p.name]) for p in row.params]
    size, executor = C.c_uint64(), C.c_void_p()
    dev.expect(dev.ops.aclnnAddGetWorkspaceSize(*arguments, C.byref(size), C.byref(executor)))
    code = dev.ops.aclnnSub(None, C.c_uint64(0), executor, dev.stream)
    assert code == PARAM_INVALID and "made by aclnnAddGetWorkspaceSize" in dev.error_text()
    assert dev.ops.aclnnAdd(None, C.c_uint64(0), C.c_void_p(), dev.stream) == NULL_POINTER


def test_the_users_thread_state_is_untouched() -> None:
    """The device may run on this thread: neither its modes nor its settings may show afterwards."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        seen: list[str] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    before = torch.get_num_threads(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    values = add()
    with Watch() as watch, torch.autocast("cpu"):
        aclnn.call("aclnnAdd", values)
        assert torch.is_autocast_enabled("cpu")
    assert watch.seen == []
    assert before == (
        torch.get_num_threads(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    )  # fmt: skip
    assert (values["out"] == 2).all()
