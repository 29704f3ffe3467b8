"""Puts compiled kernels on a stream of the device, through the ACL runtime of this process."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

from .errors import DeviceError


class Launcher(Protocol):
    """Where a kernel's tensors live and how it is started."""

    device_type: str

    def load(self, code: bytes, name: str) -> Any:
        """A handle of the kernel `name` in the shared object `code`."""

    def stream(self, device: Any) -> int:
        """The stream that operators on `device` are put on now."""

    def launch(self, kernel: Any, blocks: int, stream: int, args: bytes) -> None:
        """Enqueues `blocks` blocks with these argument bytes, which are copied."""


class AclLauncher:
    """The device of torch_npu. Launches are ordered with, and captured like, its operators."""

    device_type = "npu"

    def __init__(self) -> None:
        self._acl = _library()
        self._launch = self._acl.aclrtLaunchKernelWithHostArgs

    def load(self, code: bytes, name: str) -> ctypes.c_void_p:
        binary, function = ctypes.c_void_p(), ctypes.c_void_p()
        load, find = self._acl.aclrtBinaryLoadFromData, self._acl.aclrtBinaryGetFunction
        self._check(load(code, len(code), None, ctypes.byref(binary)), f"loading kernel {name}")
        status = find(binary, name.encode(), ctypes.byref(function))
        self._check(status, f"finding kernel {name}")
        return function

    def stream(self, device: Any) -> int:
        import torch

        # Reading npu_stream waits until torch_npu has handed its queued operators to the device.
        return int(torch.npu.current_stream(device).npu_stream)

    def launch(self, kernel: ctypes.c_void_p, blocks: int, stream: int, args: bytes) -> None:
        status = self._launch(kernel, blocks, stream, None, args, len(args), None, 0)
        if status:
            self._check(status, "launching a kernel")

    def _check(self, status: int, doing: str) -> None:
        if status == 0:
            return
        text = (self._acl.aclGetRecentErrMsg() or b"").decode(errors="replace").strip()
        raise DeviceError(f"{doing} failed with ACL error {status}: {text}")


def _library() -> ctypes.CDLL:
    try:
        acl = ctypes.CDLL("libascendcl.so")
    except OSError as error:
        raise DeviceError(
            f"the device's runtime cannot be loaded ({error}): start the program with "
            "'softnpu run', or set the environment with 'eval \"$(softnpu env)\"'"
        ) from None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    acl.aclrtBinaryLoadFromData.argtypes = [ctypes.c_char_p, size, pointer, pointer]
    acl.aclrtBinaryGetFunction.argtypes = [pointer, ctypes.c_char_p, pointer]
    acl.aclrtLaunchKernelWithHostArgs.argtypes = [
        pointer, ctypes.c_uint32, pointer, pointer, ctypes.c_char_p, size, pointer, size,
    ]  # fmt: skip
    acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return acl


_launcher: AclLauncher | None = None


def device_launcher() -> AclLauncher:
    """The launcher of this process; made when the first kernel is called."""
    global _launcher
    if _launcher is None:
        _launcher = AclLauncher()
    return _launcher
