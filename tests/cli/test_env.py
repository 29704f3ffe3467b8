"""`softnpu env` and `source set_env.sh` give a shell the same environment."""

import os
import shutil
import subprocess
import sys

import pytest

from softnpu import env, layout, versions

SET_ENV = layout.toolkit_dir() / "set_env.sh"
CHECKOUT_VENV = layout.package_dir().parents[1] / ".venv"
NAMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH")
LISTS = ("LD_LIBRARY_PATH", "PATH", "PYTHONPATH")


def shell_result(program: str, environment: dict[str, str], script: str) -> dict[str, str]:
    """The variables of a shell after a script."""
    done = subprocess.run(
        [program, "-c", f"{script}\nenv -0"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    pairs = (line.partition("=") for line in done.stdout.split("\0") if line)
    return {name: text for name, _, text in pairs}


@pytest.fixture
def exports(softnpu, plain_environment):
    """The text of `softnpu env` as the environment of these tests gets it."""
    done = softnpu("env")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_eval_sets_every_variable(exports, plain_environment):
    result = shell_result("sh", plain_environment, exports)
    assert all(result[name].startswith(str(layout.toolkit_dir())) for name in NAMES)
    assert result["LD_LIBRARY_PATH"] == str(layout.lib_dir())
    added = result["PATH"].removesuffix(plain_environment["PATH"]).strip(":").split(":")
    assert added == [f"{layout.toolkit_dir()}/bin", f"{sys.prefix}/bin"]


@pytest.mark.parametrize("program", ["bash", "zsh"])
def test_set_env_does_the_same(exports, plain_environment, program):
    if shutil.which(program) is None:
        pytest.skip(f"no {program} on this machine")
    by_eval = shell_result(program, plain_environment, exports)
    by_source = shell_result(program, plain_environment, f"source {SET_ENV}")
    for name in (*NAMES, *LISTS):
        if name == "PATH" and sys.prefix != str(CHECKOUT_VENV):
            continue  # the tests run in another virtual environment than the checkout's
        assert by_source[name] == by_eval[name], name
    assert not [name for name in by_source if name.startswith("_softnpu")]


def test_a_plain_sh_can_source_it_in_its_folder(plain_environment):
    result = shell_result("sh", plain_environment, f"cd {SET_ENV.parent} && . ./set_env.sh")
    assert result["ASCEND_HOME_PATH"] == str(layout.toolkit_dir())


def test_a_plain_sh_elsewhere_says_what_to_do(plain_environment, tmp_path):
    done = subprocess.run(
        ["sh", "-c", f". {SET_ENV}"],
        env=plain_environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "full path from bash or zsh" in done.stderr


def test_twice_is_the_same_as_once(plain_environment):
    once = shell_result("bash", plain_environment, f"source {SET_ENV}")
    twice = shell_result("bash", plain_environment, f"source {SET_ENV}; source {SET_ENV}")
    assert once == twice
    changed = {**plain_environment, **env.changes(plain_environment, adapter=True)}
    assert env.changes(changed, adapter=True).items() <= changed.items()


@pytest.mark.parametrize("script", ["eval", "source"])
def test_python3_is_the_one_that_has_torch_npu(exports, plain_environment, script):
    if script == "source" and not CHECKOUT_VENV.exists():
        pytest.skip("this checkout has no .venv")
    setup = exports if script == "eval" else f"source {SET_ENV}"
    environment = {**plain_environment, "PATH": os.defpath}
    code = "import importlib.metadata as m; print(m.version('torch_npu'))"
    done = subprocess.run(
        ["bash", "-c", f'{setup}\npython3 -c "{code}"'],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == versions.TORCH_NPU.version, done.stderr


def test_an_active_environment_keeps_its_place(plain_environment):
    path = f"/first:{sys.prefix}/bin:/last"
    changes = env.changes({"PATH": path}, adapter=True)
    assert changes["PATH"] == f"{layout.toolkit_dir()}/bin:{path}"


def test_values_are_quoted(softnpu, plain_environment):
    odd = "/a b/$(touch pwned)/`x`/'q'/\"d\""
    done = softnpu("env", LD_LIBRARY_PATH=odd)
    result = shell_result("sh", plain_environment, done.stdout)
    assert result["LD_LIBRARY_PATH"] == f"{layout.lib_dir()}:{odd}"


def test_set_env_keeps_odd_entries(plain_environment):
    odd = "/a b/$(touch pwned)/'q'"
    environment = {**plain_environment, "LD_LIBRARY_PATH": odd}
    result = shell_result("bash", environment, f"source {SET_ENV}")
    assert result["LD_LIBRARY_PATH"] == f"{layout.lib_dir()}:{odd}"


def test_options_become_settings(softnpu, plain_environment):
    done = softnpu("env", "--soc", "Ascend910B1", "--devices", "8", "--seed", "5")
    result = shell_result("sh", plain_environment, done.stdout)
    settings = {name: text for name, text in result.items() if name.startswith("SOFTNPU_")}
    assert settings == {
        "SOFTNPU_SOC": "Ascend910B1",
        "SOFTNPU_DEVICES": "8",
        "SOFTNPU_SEED": "5",
    }


def test_mainline_takes_the_adapter_off(softnpu, plain_environment):
    under_adapter = {**plain_environment, **env.changes(plain_environment, adapter=True)}
    changes = env.changes(under_adapter, adapter=False)
    assert changes["PYTHONPATH"] == plain_environment["PYTHONPATH"]
    done = softnpu("env", "--tilelang", "mainline")
    assert os.fspath(layout.adapter_dir()) not in done.stdout
