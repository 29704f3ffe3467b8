"""PyTorch's operator database through the unmodified torch_npu wheel, against committed outcomes.

What passed must pass, and what is committed as failing must fail in the same way: an improvement is
recorded with ``softnpu run -m tests.ops.opinfo_run --write``.
"""

from __future__ import annotations

from pathlib import Path

from tests.ops import opinfo_run


def committed(path: Path) -> list[list[str]]:
    lines = path.read_text().splitlines()
    return [line.split(" ") for line in lines if line and not line.startswith("#")]


def test_operator_database_gives_the_committed_outcomes() -> None:
    expected = {row[0]: row[1] for row in committed(opinfo_run.OUTCOMES)}
    found, reached = opinfo_run.run()
    changed = {
        op: f"{expected.get(op)} -> {found.get(op)}"
        for op in sorted(expected | found)
        if expected.get(op) != found.get(op)
    }
    assert not changed
    missing = {row[0] for row in committed(opinfo_run.REACHED)} - reached
    assert not missing, "no longer reached through torch_npu"
