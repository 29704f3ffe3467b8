"""Fixtures of the C interface's tests: a device of their own, and what lies in its memory."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from softnpu import layout
from tests.abi.acl_calls import DEVICE, Acl, handle_of


@pytest.fixture(scope="session")
def acl_library() -> Acl:
    if not layout.toolkit_is_built():
        pytest.skip(f"the toolkit is not built: {layout.how_to_build()}")
    return Acl(layout.lib_dir() / "libascendcl.so")


@pytest.fixture
def acl(acl_library: Acl) -> Iterator[Acl]:
    """The library with DEVICE selected, and as good as new afterwards."""
    acl_library.check(acl_library.aclrtSetDevice(DEVICE))
    yield acl_library
    acl_library.check(acl_library.aclrtResetDevice(DEVICE))


@pytest.fixture
def stream(acl: Acl) -> int:
    return handle_of(acl.aclrtCreateStream)


@pytest.fixture
def event(acl: Acl) -> int:
    return handle_of(acl.aclrtCreateEventExWithFlag, 1)


@pytest.fixture
def device_memory(acl: Acl) -> Callable[[int], int]:
    """device_memory(bytes): an address; freed with the device's reset."""

    def allocate(size: int) -> int:
        return handle_of(acl.aclrtMalloc, size, 0)

    return allocate


@pytest.fixture
def pinned(acl: Acl) -> Iterator[Callable[[int], int]]:
    """pinned(bytes): an address of host memory that asynchronous copies may use."""
    blocks: list[int] = []

    def allocate(size: int) -> int:
        blocks.append(handle_of(acl.aclrtMallocHost, size))
        return blocks[-1]

    yield allocate
    for block in blocks:
        acl.check(acl.aclrtFreeHost(block))


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """run_python(source, NAME="value"): runs it under `softnpu run` in an empty folder."""

    def run(source: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        script = tmp_path / "program.py"
        script.write_text(source, encoding="utf-8")
        environment = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("ASCEND_", "SOFTNPU_", "LD_LIBRARY_PATH", "TASK_QUEUE"))
        }
        environment["PYTHONPATH"] = str(layout.package_dir().parent)
        environment["HOME"] = str(tmp_path)
        return subprocess.run(
            [sys.executable, "-m", "softnpu", "run", "--tilelang", "mainline", str(script)],
            env={**environment, **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
