"""Runs compiled kernels on CPU tensors, block by block, without a device.

Everything but the launch is the real thing: front-end, checks, emitter, compiler, arguments.
"""

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path

from softnpu import layout
from softnpu.tilelang_ascend.jit import compile as compile_kernel
from softnpu.tilelang_ascend.ub_plan import UB_BYTES


class Fault(Exception):
    """A kernel reported a fault; the text has kind, block, core, address, place and cause."""


@functools.cache
def library():
    """The compiled harness.cpp."""
    place = Path(tempfile.mkdtemp(prefix="softnpu-harness-"))
    target = place / "harness.so"
    command = [
        os.environ.get("CXX") or "g++", "-std=c++20", "-O1", "-fPIC", "-shared",
        f"-I{layout.kernel_include_dir()}", str(Path(__file__).with_name("harness.cpp")),
        "-o", str(target),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(target))
    loaded.run_kernel.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
        ctypes.c_size_t, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t,
    ]  # fmt: skip
    return loaded


class HostLauncher:
    """Starts kernels in the calling thread. `limits` are (address, end) pairs of allocations."""

    device_type = "cpu"

    def __init__(self, limits=(), ub_bytes=UB_BYTES):
        self.limits = [word for pair in limits for word in pair]
        self.ub_bytes = ub_bytes

    def load(self, code, name):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(code)
            file.flush()
            loaded = ctypes.CDLL(file.name)
        return loaded, ctypes.cast(getattr(loaded, f"softnpu_kernel_{name}"), ctypes.c_void_p)

    def stream(self, device):
        return 0

    def launch(self, kernel, blocks, stream, args):
        text = ctypes.create_string_buffer(1024)
        ranges = (ctypes.c_size_t * len(self.limits))(*self.limits)
        code = library().run_kernel(
            kernel[1], blocks, args, len(args), ranges, len(self.limits) // 2, self.ub_bytes,
            text, len(text),
        )  # fmt: skip
        if code:
            raise Fault(text.value.decode())


def host_kernel(func, out_idx=None, workspace_idx=None, limits=(), ub_bytes=UB_BYTES, **options):
    """`func` compiled for CPU tensors."""
    kernel = compile_kernel(func, out_idx, workspace_idx, **options)
    kernel._launcher = HostLauncher(limits, ub_bytes)
    return kernel


def extent_of(tensor, elements=None):
    """The address range of a tensor, or of its first `elements`, for `limits`."""
    count = tensor.numel() if elements is None else elements
    return tensor.data_ptr(), tensor.data_ptr() + count * tensor.element_size()
