"""Runs the `softnpu` command as a user does: in a process of its own, from an ordinary shell."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from softnpu import layout

Run = Callable[..., "subprocess.CompletedProcess[str]"]

_OURS = ("SOFTNPU_", "ASCEND_", "LD_LIBRARY_PATH", "PYTHONPATH")


@pytest.fixture
def plain_environment() -> dict[str, str]:
    """An environment without softnpu in it, though the tests themselves may run under it."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_OURS)}
    kept["PATH"] = os.pathsep.join(
        folder
        for folder in kept["PATH"].split(os.pathsep)
        if folder not in (str(layout.toolkit_dir() / "bin"), f"{sys.prefix}/bin")
    )
    # The sources under test, which need not be the installed ones.
    kept["PYTHONPATH"] = str(layout.package_dir().parent)
    return kept


@pytest.fixture
def softnpu(plain_environment: dict[str, str], tmp_path: Path) -> Run:
    """softnpu("run", "x.py", SOFTNPU_SEED="3"): runs it in an empty folder, captures everything."""

    def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "softnpu", *arguments],
            env={**plain_environment, **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """write("x.py", source): a file in the folder that `softnpu` runs in."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def assert_one_line_error(
    done: "subprocess.CompletedProcess[str]", exit_code: int, *words: str
) -> None:
    """The command ended with this exit code and one line, which holds these words."""
    assert done.returncode == exit_code, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("softnpu: error: "), done.stderr
    for word in words:
        assert word in lines[0]
