"""`import torch` without the environment says what to do, and nothing else is disturbed."""

import subprocess
import sys

import pytest

from softnpu import layout
from tests.cli.test_run import copy_of_the_package

HOOK = (layout.package_dir().parent / "softnpu.pth").read_text(encoding="utf-8")


def python(code: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Runs code in an interpreter that has read this checkout's softnpu.pth."""
    return subprocess.run(
        [sys.executable, "-c", f"{HOOK}\n{code}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_import_torch_says_what_to_do(plain_environment):
    done = python("import torch", plain_environment)
    assert done.returncode != 0
    for way in ("softnpu run script.py", "softnpu env", "TORCH_DEVICE_BACKEND_AUTOLOAD=0"):
        assert way in done.stderr


def test_an_unbuilt_checkout_says_how_to_build(plain_environment, tmp_path):
    environment = {**plain_environment, "PYTHONPATH": str(copy_of_the_package(tmp_path))}
    done = python("import torch_npu", environment)
    assert f"run `make build` in {tmp_path}" in done.stderr


def test_to_look_for_torch_npu_does_not_fail(plain_environment):
    code = "import importlib.util as u; print(u.find_spec('torch_npu').origin)"
    done = python(code, plain_environment)
    assert done.stdout.strip().endswith("torch_npu/__init__.py"), done.stderr


def test_a_missing_torch_npu_is_reported_as_missing(plain_environment):
    code = (
        "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]; import torch_npu"
    )
    done = python(code, plain_environment)
    assert "No module named 'torch_npu'" in done.stderr


def test_another_installation_of_the_libraries_is_left_alone(plain_environment, tmp_path):
    (tmp_path / "libascendcl.so").touch()
    environment = {**plain_environment, "LD_LIBRARY_PATH": str(tmp_path)}
    code = "import importlib.util as u; print(type(u.find_spec('torch_npu').loader).__name__)"
    assert python(code, environment).stdout.strip() == "SourceFileLoader"


def test_the_hook_itself_imports_nothing(plain_environment):
    code = "import sys; print([m for m in sys.modules if m.startswith('softnpu')])"
    assert python(code, plain_environment).stdout.strip() == "[]"


@pytest.mark.parametrize(
    "program",
    [
        "import softnpu",
        "from softnpu.cli import main; main(['--help'], standalone_mode=False)",
    ],
)
def test_importing_softnpu_and_its_help_load_no_torch(plain_environment, program):
    heavy = ["torch", "torch_npu", "numpy", "tilelang", "rich", "yaml"]
    code = f"{program}\nimport sys\nprint('loaded', [m for m in {heavy} if m in sys.modules])"
    done = python(code, plain_environment)
    assert done.stdout.strip().endswith("loaded []"), done.stdout + done.stderr
