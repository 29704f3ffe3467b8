"""Calls aclnn functions the way torch_npu does, on plain CPU tensors.

The arguments are built with aclCreate*, passed with the C types of the table, and the call runs on
a stream of the device; host memory serves as device memory. One process, no torch_npu.
"""

from __future__ import annotations

import ctypes as C
import os
from functools import cache
from pathlib import Path
from typing import Any

import torch  # loads libtorch, which the operators' library needs

from softnpu import optable

ACL_DTYPES = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4,
    torch.int16: 6, torch.int64: 9, torch.float64: 11, torch.bool: 12, torch.complex64: 16,
    torch.complex128: 17, torch.bfloat16: 27,
}  # fmt: skip
_C_TYPES = {
    "i8": C.c_int8, "i32": C.c_int32, "i64": C.c_int64, "u64": C.c_uint64, "f32": C.c_float,
    "f64": C.c_double, "bool": C.c_bool, "dt": C.c_int32, "str": C.c_char_p,
}  # fmt: skip
LIBRARIES = Path(os.environ.get("SOFTNPU_LIB64", Path(optable.__file__).parent / "toolkit/lib64"))


class AclnnError(RuntimeError):
    """A call returned a code, or the device failed; `code` is 0 for the latter."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class Device:
    """Device 1 with one stream: a session that also uses torch_npu keeps device 0."""

    def __init__(self) -> None:
        self.runtime = C.CDLL(str(LIBRARIES / "libsoftnpu_runtime.so"), mode=C.RTLD_GLOBAL)
        self.ops = C.CDLL(str(LIBRARIES / "libsoftnpu_ops.so"))
        self.runtime.aclGetRecentErrMsg.restype = C.c_char_p
        for name in ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList"):
            getattr(self.ops, f"aclCreate{name}").restype = C.c_void_p
        self.ops.aclCreateScalarList.restype = C.c_void_p
        self.reset()

    def reset(self) -> None:
        """A fresh context: a device error sticks to the one in which it happened."""
        self.runtime.aclrtResetDevice(1)
        self.expect(self.runtime.aclrtSetDevice(1))
        self.stream = C.c_void_p()
        self.expect(self.runtime.aclrtCreateStream(C.byref(self.stream)))
        # torch_npu starts on whatever device is current, and must not start on this one.
        self.expect(self.runtime.aclrtSetDevice(0))

    def error_text(self) -> str:
        return (self.runtime.aclGetRecentErrMsg() or b"").decode(errors="replace")

    def expect(self, code: int) -> None:
        if code != 0:
            raise AclnnError(code, self.error_text())

    def synchronize(self) -> None:
        code = self.runtime.aclrtSynchronizeStream(self.stream)
        if code != 0:
            text = self.error_text()
            self.reset()
            raise AclnnError(0, text)


@cache
def device() -> Device:
    return Device()


def make_tensor(tensor: torch.Tensor | None, acl_format: int = 2) -> C.c_void_p:
    """An aclTensor over the tensor's memory; the tensor must outlive it."""
    if tensor is None:
        return C.c_void_p()
    count = max(tensor.dim(), 1)
    sizes = (C.c_int64 * count)(*tensor.shape)
    strides = (C.c_int64 * count)(*tensor.stride())
    storage = tensor.untyped_storage()
    storage_size = (C.c_int64 * 1)(storage.nbytes() // tensor.element_size())
    return C.c_void_p(
        device().ops.aclCreateTensor(
            sizes,
            C.c_uint64(tensor.dim()),
            ACL_DTYPES[tensor.dtype],
            strides,
            C.c_int64(tensor.storage_offset()),
            acl_format,
            storage_size,
            C.c_uint64(1),
            C.c_void_p(storage.data_ptr()),
        )  # fmt: skip
    )


def make_scalar(value: bool | int | float) -> C.c_void_p:
    kinds: list[tuple[type, Any, int]] = [
        (bool, C.c_bool, 12), (int, C.c_int64, 9), (float, C.c_double, 11),
    ]  # fmt: skip
    for python_type, c_type, dtype in kinds:
        if isinstance(value, python_type):
            return C.c_void_p(device().ops.aclCreateScalar(C.byref(c_type(value)), dtype))
    raise TypeError(f"no aclScalar for {value!r}")


def _array(name: str, c_type: Any, values: list[Any]) -> C.c_void_p:
    create = getattr(device().ops, f"aclCreate{name}")
    return C.c_void_p(create((c_type * max(len(values), 1))(*values), C.c_uint64(len(values))))


def _pointers(name: str, items: list[C.c_void_p]) -> C.c_void_p:
    return _array(name, C.c_void_p, [item.value for item in items])


def make_argument(kind: str, value: Any) -> Any:
    """The C argument of a kind of the table for a Python value."""
    base = kind.rstrip("!?*")
    if value is None and base not in ("dt", "str"):
        return C.c_void_p()
    if base == "T":
        return make_tensor(value)
    if base == "S":
        return make_scalar(value)
    if base == "L":
        return _pointers("TensorList", [make_tensor(t) for t in value])
    if base == "SL":
        return _pointers("ScalarList", [make_scalar(s) for s in value])
    if base == "I":
        return _array("IntArray", C.c_int64, list(value))
    if base == "F":
        return _array("FloatArray", C.c_float, list(value))
    if base == "B":
        return _array("BoolArray", C.c_bool, list(value))
    if base == "dt":
        return C.c_int32(-1 if value is None else ACL_DTYPES[value])
    if base == "str":
        return C.c_char_p(None if value is None else value.encode())
    return _C_TYPES[base](value)


@cache
def table() -> dict[str, optable.OpRow]:
    return {row.acl: row for row in optable.load()}


def destroy(kind: str, argument: Any) -> None:
    names = {"T": "Tensor", "S": "Scalar", "I": "IntArray", "F": "FloatArray", "B": "BoolArray",
             "L": "TensorList", "SL": "ScalarList"}  # fmt: skip
    if name := names.get(kind.rstrip("!?*")):
        getattr(device().ops, f"aclDestroy{name}")(argument)


def view_shape(argument: C.c_void_p) -> list[int]:
    """What aclGetViewShape tells of an aclTensor."""
    dims, count = C.POINTER(C.c_int64)(), C.c_uint64()
    device().expect(device().ops.aclGetViewShape(argument, C.byref(dims), C.byref(count)))
    return [dims[i] for i in range(count.value)]


def call(name: str, values: dict[str, Any]) -> dict[str, list[int]]:
    """Runs one aclnn function with `values` by parameter name; returns the sizes of T* outputs."""
    dev, row = device(), table()[name]
    arguments = [make_argument(p.kind, values[p.name]) for p in row.params]
    size, executor = C.c_uint64(1), C.c_void_p()
    plan = getattr(dev.ops, f"{name}GetWorkspaceSize")
    dev.expect(plan(*arguments, C.byref(size), C.byref(executor)))
    assert size.value == 0 and executor.value
    dev.expect(getattr(dev.ops, name)(None, C.c_uint64(0), executor, dev.stream))
    dev.synchronize()
    shapes = {
        p.name: view_shape(a) for p, a in zip(row.params, arguments, strict=True) if p.kind == "T*"
    }
    for param, argument in zip(row.params, arguments, strict=True):
        destroy(param.kind, argument)
    return shapes
