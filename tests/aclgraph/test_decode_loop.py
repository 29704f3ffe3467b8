"""The example runs, and graphs change no token."""

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/decode_loop/decode_loop.py"


def test_decode_loop(tmp_path):
    figures = tmp_path / "figures.json"
    options = ["--requests", "4", "--layers", "2", "--max-num-seqs", "4", "--explain"]
    done = subprocess.run(
        [sys.executable, "-m", "softnpu", "run", str(EXAMPLE), *options, "--json", str(figures)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tokens of 4 requests are identical" in done.stdout
    assert "0 findings" in done.stdout
    assert "requests are still in their prompt" in done.stdout
    assert "every request is past its prompt" in done.stdout
    assert json.loads(figures.read_text())["variables"]["layers"] == 2
