"""ExternalEvent both ways: as a value in memory, and as an event where an older CANN has no values.

As a value it is a binary semaphore: a record sets it, a wait waits for it and clears it. As an
event torch_npu makes it at its first record, so it has to be recorded before it is captured.
"""

import json
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from tests.abi.conftest import run_python

__all__ = ["run_python"]

PROGRAM = """
import ctypes, json
import torch

library = ctypes.CDLL("libascendcl.so")
result = {"values": hasattr(library, "aclrtValueWait")}
x = torch.zeros(4, device="npu")
event, graph = torch.npu.ExternalEvent(), torch.npu.NPUGraph()
event.record(torch.npu.current_stream())
torch.npu.synchronize()
with torch.npu.graph(graph):
    event.wait(torch.npu.current_stream())
    event.reset(torch.npu.current_stream())
    x += 1
updates = torch.npu.Stream()
# Each replay waits for a record of its own; the first one is there already.
graph.replay()
for _ in range(3):
    torch.npu.synchronize()
    graph.replay()
    event.record(updates)
torch.npu.synchronize()
result["x"] = x.tolist()
# Two records before one wait: one is lost, and the second replay waits for ever.
event.record(updates)
event.record(updates)
torch.npu.synchronize()
graph.replay()
graph.replay()
try:
    torch.npu.synchronize()
except RuntimeError as error:
    result["hang"] = str(error)
print(json.dumps(result))
"""


@pytest.mark.parametrize("hidden", ["", "aclrtValueWrite,aclrtValueWait"])
def test_external_event(run_python: Callable[..., CompletedProcess[str]], hidden: str) -> None:
    done = run_python(PROGRAM, SOFTNPU_HIDE=hidden, SOFTNPU_HANG_SECONDS="1")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["values"] == (not hidden)
    assert result["x"] == [4.0] * 4
    assert "107020" in result["hang"]
    what = "a record of external event" if hidden else "the value at 0x"
    assert what in result["hang"] and "node 0 of graph 1" in result["hang"]


def test_an_unknown_function_cannot_be_hidden(
    run_python: Callable[..., CompletedProcess[str]],
) -> None:
    done = run_python("print('ran')", SOFTNPU_HIDE="aclrtNoSuchThing")
    assert done.returncode != 0 and "ran" not in done.stdout
    assert "no function aclrtNoSuchThing" in done.stderr
