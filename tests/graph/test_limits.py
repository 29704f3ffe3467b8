"""Streams run out: a graph keeps one for each stream it captured until it is destroyed."""

import json
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from tests.abi.conftest import run_python

__all__ = ["run_python"]

PROGRAM = """
import gc, json
import torch

def capture(graphs, forks):
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x + 1
        for side in forks:
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                z = y * 2
            torch.npu.current_stream().wait_stream(side)
    graphs.append((graph, y))

def until_it_fails(forks):
    graphs = []
    while True:
        try:
            capture(graphs, forks)
        except RuntimeError as error:
            torch.npu.set_stream(torch.npu.default_stream())
            return graphs, str(error)

capture([], [])
gc.collect()
result = {}
graphs, result["begin"] = until_it_fails([])
result["number"] = len(graphs)
graphs.pop()
capture(graphs, [])
result["after one less"] = len(graphs)
y = graphs[0][1]
graphs[0][0].replay()
result["y"] = y.tolist()
del graphs
gc.collect()
sides = [torch.npu.Stream() for _ in range(3)]
graphs, result["fork"] = until_it_fails(sides)
result["number with forks"] = len(graphs)
print(json.dumps(result))
"""


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("207008", "EL0009: Insufficient_Stream_Resources"),
        ("207005", "Alloc sq cq fail, stream_id=150, retCode=0x7020023"),
    ],
)
def test_streams_run_out(
    run_python: Callable[..., CompletedProcess[str]], number: str, words: str
) -> None:
    done = run_python(
        PROGRAM,
        SOFTNPU_STREAM_LIMIT="150",
        SOFTNPU_STREAM_ERROR=number,
        TASK_QUEUE_ENABLE="0",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert number in result["begin"] and words in result["begin"]
    assert "SOFTNPU_STREAM_LIMIT" in result["begin"]
    assert result["number"] > 10 and result["after one less"] == result["number"]
    assert result["y"] == [2.0] * 4
    # The fork fails, or the begin, and the end of the capture tells why.
    assert number in result["fork"] or words in result["fork"]
    assert result["number with forks"] == result["number"] // 4
