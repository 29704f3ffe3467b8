"""`softnpu run`: what it starts, with which environment, and which exit code comes back."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from softnpu import layout, versions
from tests.cli.conftest import assert_one_line_error

SHOW = """
import json, os, sys
print(json.dumps({"argv": sys.argv, "env": dict(os.environ), "executable": sys.executable}))
sys.exit(int(os.environ.get("EXIT", "0")))
"""


def test_the_script_gets_its_arguments_and_our_interpreter(softnpu, write):
    write("show.py", SHOW)
    arguments = ["--soc", "nonsense", "-q", "--help", "--", "-m", "a b", ""]
    done = softnpu("run", "show.py", *arguments)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["argv"] == ["show.py", *arguments]
    assert shown["executable"] == sys.executable


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_is_the_scripts(softnpu, write, code):
    write("show.py", SHOW)
    assert softnpu("run", "show.py", EXIT=str(code)).returncode == code


def test_a_signal_that_ends_the_script_is_seen(softnpu, write):
    write("die.py", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert softnpu("run", "die.py").returncode == -15


def test_the_environment(softnpu, write):
    write("show.py", SHOW)
    options = ["--soc", "Ascend910B1", "--devices=4", "--seed", "7"]
    done = softnpu("run", *options, "show.py", LD_LIBRARY_PATH="/a::/b")
    environment = json.loads(done.stdout)["env"]
    toolkit = layout.toolkit_dir()
    assert environment["SOFTNPU_SOC"] == "Ascend910B1"
    assert environment["SOFTNPU_DEVICES"] == "4"
    assert environment["SOFTNPU_SEED"] == "7"
    assert environment["LD_LIBRARY_PATH"] == f"{toolkit}/lib64:/a:/b"
    assert environment["ASCEND_HOME_PATH"] == environment["ASCEND_TOOLKIT_HOME"] == str(toolkit)
    assert os.path.isdir(environment["ASCEND_OPP_PATH"])
    assert environment["PATH"].split(":")[0] == f"{toolkit}/bin"
    assert environment["PYTHONPATH"].split(":")[0] == str(layout.adapter_dir())


def test_settings_without_an_option_pass_through(softnpu, write):
    write("show.py", SHOW)
    done = softnpu("run", "show.py", SOFTNPU_SOC="Ascend910B4", SOFTNPU_THREADS="1")
    environment = json.loads(done.stdout)["env"]
    assert environment["SOFTNPU_SOC"] == "Ascend910B4"
    assert "SOFTNPU_DEVICES" not in environment


def test_a_run_inside_a_run_changes_nothing(softnpu, write):
    write("show.py", SHOW)
    inner = [sys.executable, "-m", "softnpu", "run", "show.py"]
    once = json.loads(softnpu("run", "show.py").stdout)["env"]
    twice = json.loads(softnpu("run", "--", *inner).stdout)["env"]
    assert once == twice


def test_a_command(softnpu):
    done = softnpu("run", "--seed", "1", "--", "sh", "-c", 'echo "$SOFTNPU_SEED $0"; exit 5', "x")
    assert (done.stdout, done.returncode) == ("1 x\n", 5)


def test_a_module(softnpu, write):
    write("package/tool.py", SHOW)
    done = softnpu("run", "-m", "package.tool", "--soc", "x")
    assert json.loads(done.stdout)["argv"][1:] == ["--soc", "x"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["nothing to run"]),
        (["--"], ["nothing to run"]),
        (["missing.py"], ["no such script: missing.py"]),
        (["sh"], ["no such script: sh", "softnpu run -- sh"]),
        (["--soc", "Ascend999", "x.py"], ["Ascend999", "Ascend910B3", "Ascend950"]),
        (["--devices", "-1", "x.py"], ["--devices=-1", "from 1 to 64"]),
        (["--devices", "two", "x.py"], ["--devices=two"]),
        (["--seed", "-1", "x.py"], ["--seed=-1"]),
        (["--seed", "1.5", "x.py"], ["--seed=1.5"]),
    ],
)
def test_mistakes_on_the_command_line(softnpu, arguments, words):
    assert_one_line_error(softnpu("run", *arguments), 2, *words)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("SOFTNPU_SOC", "NVIDIA"),
        ("SOFTNPU_DEVICES", "0"),
        ("SOFTNPU_SEED", "0x10"),
        ("SOFTNPU_THREADS", "many"),
        ("SOFTNPU_HBM_BYTES", "64G"),
        ("SOFTNPU_STREAM_LIMIT", "-2"),
        ("SOFTNPU_CANN_VERSION", "latest"),
        ("SOFTNPU_DRIVER_VERSION", "25"),
        ("SOFTNPU_HANG_SECONDS", "0"),
        ("SOFTNPU_CACHE_DIR", "relative/folder"),
        ("SOFTNPU_LOG", "stream,nothing"),
    ],
)
def test_a_malformed_setting_is_reported_before_anything_starts(softnpu, write, variable, text):
    write("x.py", "print('started')")
    done = softnpu("run", "x.py", **{variable: text})
    assert_one_line_error(done, 2, f"{variable}={text}")
    assert done.stdout == ""


def test_an_option_outweighs_a_malformed_variable(softnpu, write):
    write("x.py", "print('started')")
    assert softnpu("run", "--devices", "1", "x.py", SOFTNPU_DEVICES="x").stdout == "started\n"


def test_a_command_that_does_not_exist(softnpu):
    assert_one_line_error(softnpu("run", "--", "no-such-command"), 127, "no-such-command")


def test_another_torch_npu(softnpu, write, tmp_path, plain_environment):
    write("torch_npu-2.9.0.dist-info/METADATA", "Name: torch_npu\nVersion: 2.9.0\n")
    search = f"{tmp_path}:{plain_environment['PYTHONPATH']}"
    write("x.py", "print('started')")
    done = softnpu("run", "x.py", PYTHONPATH=search)
    assert_one_line_error(done, 1, "torch_npu is 2.9.0", "needs 2.13.0", "pip install")


def test_no_torch_npu(monkeypatch):
    monkeypatch.setattr(versions.importlib.metadata, "version", _raise_not_found)
    problem = versions.problem(versions.TORCH_NPU)
    assert problem == "torch_npu is not installed: pip install torch_npu==2.13.0"


def test_a_cuda_build_of_torch(softnpu, write, tmp_path, plain_environment):
    write("torch/__init__.py", "")
    write("torch/lib/libtorch_cuda.so", "")
    write("torch-2.13.0.dist-info/METADATA", "Name: torch\nVersion: 2.13.0\n")
    write("x.py", "print('started')")
    search = f"{tmp_path}:{plain_environment['PYTHONPATH']}"
    done = softnpu("run", "x.py", PYTHONPATH=search)
    assert_one_line_error(done, 1, "CUDA build", "https://download.pytorch.org/whl/cpu")


def _raise_not_found(name: str) -> str:
    raise versions.importlib.metadata.PackageNotFoundError(name)


def copy_of_the_package(folder: Path) -> Path:
    """A source checkout whose libraries have not been built."""
    unbuilt = shutil.ignore_patterns("lib64", "__pycache__")
    shutil.copytree(layout.package_dir(), folder / "src" / "softnpu", ignore=unbuilt)
    (folder / "native" / "kernel").mkdir(parents=True)
    return folder / "src"


@pytest.mark.parametrize("arguments", [["run", "x.py"], ["env"]])
def test_a_toolkit_that_is_not_built(softnpu, write, tmp_path, arguments):
    write("x.py", "print('started')")
    source = copy_of_the_package(tmp_path / "checkout")
    done = softnpu(*arguments, PYTHONPATH=str(source))
    assert_one_line_error(done, 1, "not built", "make build", str(tmp_path / "checkout"))
