"""tools/find_python.sh: what `make` says on a machine that lacks something."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "find_python.sh"
PYTHON = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
OLD_PYTHON = "#!/bin/sh\nexit 1\n"
GXX = "#!/bin/sh\necho 12\n"


@pytest.fixture
def find(tmp_path):
    """find(PYTHON="...", programs={name: text}): runs the script where only these exist."""

    def find(programs: dict[str, str], preferred: str = "") -> "subprocess.CompletedProcess[str]":
        for name, text in programs.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
            (tmp_path / name).chmod(0o755)
        shell = shutil.which("sh")
        assert shell is not None
        return subprocess.run(
            [shell, str(SCRIPT), preferred],
            env={"PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return find


@pytest.mark.parametrize("name", ["python3.11", "python3"])
def test_either_name_will_do(find, tmp_path, name):
    done = find({name: PYTHON, "g++": GXX})
    assert done.stdout.strip() == str(tmp_path / name), done.stderr


def test_a_broken_python3_11_is_passed_over(find, tmp_path):
    done = find({"python3.11": OLD_PYTHON, "python3": PYTHON, "g++": GXX})
    assert done.stdout.strip() == str(tmp_path / "python3"), done.stderr


@pytest.mark.parametrize(
    ("programs", "preferred", "words"),
    [
        ({"g++": GXX}, "", "CPython 3.11 is needed"),
        ({"python3": OLD_PYTHON, "g++": GXX}, "", "CPython 3.11 is needed"),
        ({"python3": PYTHON, "mine": OLD_PYTHON, "g++": GXX}, "mine", "PYTHON=mine is not"),
        ({"python3": PYTHON}, "", "no C++ compiler: g++"),
        ({"python3": PYTHON, "g++": "#!/bin/sh\necho 9\n"}, "", "g++ is version 9"),
        ({"python3": PYTHON, "g++": "#!/bin/sh\nexit 1\n"}, "", "g++ is version unknown"),
    ],
)
def test_what_is_missing_is_said(find, programs, preferred, words):
    done = find(programs, preferred)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("softnpu: error: ")
    assert words in done.stderr
