"""How a process that uses the device forks and ends."""

import subprocess
from collections.abc import Callable

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

LOAD = """
import ctypes, os, sys, time
from softnpu import layout
acl = ctypes.CDLL(str(layout.lib_dir() / "libascendcl.so"))
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
acl.aclInit(None)
"""
WORK = """
acl.aclrtSetDevice(0)
stream, memory = ctypes.c_void_p(), ctypes.c_void_p()
acl.aclrtCreateStream(ctypes.byref(stream))
acl.aclrtMalloc(ctypes.byref(memory), ctypes.c_uint64(1 << 20), 0)
def work():
    size = ctypes.c_uint64(1 << 20)
    return acl.aclrtMemsetAsync(memory, size, 1, size, stream)
"""


def test_exit_with_work_queued(run_python: RunPython) -> None:
    done = run_python(LOAD + WORK + "for _ in range(200): work()\nprint('end')")
    assert (done.returncode, done.stdout.strip()) == (0, "end"), done.stderr


def test_exit_while_a_task_can_never_run(run_python: RunPython) -> None:
    wait = "print(acl.aclrtValueWait(memory, ctypes.c_uint64(9), 1, stream))"
    done = run_python(LOAD + WORK + wait)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


def test_forked_child_that_leaves_the_device_alone(run_python: RunPython) -> None:
    done = run_python(
        LOAD + WORK + "work()\nchild = os.fork()\n"
        "if not child: sys.exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(work(), acl.aclrtSynchronizeStream(stream))"
    )
    assert done.stdout.split() == ["7", "0", "0"], done.stderr


def test_forked_child_is_told_that_it_has_no_device(run_python: RunPython) -> None:
    done = run_python(
        LOAD + WORK + "child = os.fork()\n"
        "if not child:\n"
        "    calls = [work(), acl.aclrtSynchronizeStream(stream), acl.aclrtSetDevice(0),\n"
        "             acl.aclrtFree(memory), acl.aclrtSynchronizeDevice()]\n"
        "    print(calls, acl.aclGetRecentErrMsg().decode(), flush=True)\n"
        "    sys.exit(0)\n"
        "os.waitpid(child, 0)"
    )
    assert done.stdout.startswith(str([507033] * 5)), done.stdout
    assert "forked" in done.stdout and '"spawn"' in done.stdout


def test_child_forked_before_the_first_use_has_a_device(run_python: RunPython) -> None:
    done = run_python(
        LOAD
        + "child = os.fork()\n"
        + WORK
        + "failed = work() or acl.aclrtSynchronizeStream(stream)\n"
        "if not child: sys.exit(failed)\n"
        "print(failed, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert done.stdout.split() == ["0", "0"], done.stderr
