"""Example 08 as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = (
    Path(__file__).parents[2] / "examples/08-ascend-aclgraph/aclgraph_decode_block.py"
).resolve()


def run(*args: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "softnpu", "run", str(EXAMPLE), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--batch", "1", "--heads", "1", "--head-size", "32", "--steps", "3"),
        ("--batch", "3", "--heads", "5", "--head-size", "64", "--steps", "7", "--seed", "5"),
        ("--batch", "2", "--heads", "2", "--steps", "4", "--no-auto-cv-combine"),
    ],
)
def test_matches_the_reference_and_the_eager_run(args):
    done = run(*args)
    assert done.returncode == 0, done.stderr
    assert "Kernel Output Match!" in done.stdout
    assert "eager == graph" in done.stdout
    for name in ("NPU model", "CANN", "torch_npu", "batch", "heads", "hidden", "AUTO_CV_COMBINE"):
        assert name in done.stdout
    assert re.search(r"^eager +off +[\d.]+ us +[\d.]+ us$", done.stdout, re.M)
    assert re.search(r"^replay +on +[\d.]+ us +[\d.]+ us$", done.stdout, re.M)


def test_eager_alone_captures_nothing():
    done = run("--eager", "--batch", "2", "--heads", "2", "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "Kernel Output Match!" in done.stdout
    assert "replay" not in done.stdout


@pytest.mark.parametrize("args", [("--batch", "0"), ("--head-size", "48"), ("--steps", "x")])
def test_bad_flags_are_refused(args):
    done = run(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert args[0] in done.stderr
