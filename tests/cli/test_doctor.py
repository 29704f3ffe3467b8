"""`softnpu doctor` names what is wrong and how to mend it, and its exit code says whether."""

import pytest

from softnpu import doctor, settings, standins
from tests.cli.test_run import copy_of_the_package


def test_every_section_is_there(softnpu):
    done = softnpu("doctor", "--no-trial")
    for section in ("versions:", "settings:", "soc:", "libraries:"):
        assert section in done.stdout
    for setting in settings.SETTINGS:
        assert setting.variable in done.stdout


def test_a_settings_source_is_shown(softnpu):
    done = softnpu("doctor", "--no-trial", SOFTNPU_DEVICES="5")
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if "SOFTNPU_" in line}
    assert "5  [environment]" in lines["SOFTNPU_DEVICES"]
    assert "[default]" in lines["SOFTNPU_SOC"]


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"SOFTNPU_SOC": "Ascend1"}, "SOFTNPU_SOC=Ascend1: unknown SoC"),
        ({"SOFTNPU_SEED": "x"}, "SOFTNPU_SEED=x"),
        ({"CXX": "no-such-compiler"}, "no C++ compiler: no-such-compiler"),
        ({"CXX": "false"}, "false does not tell its version"),
    ],
)
def test_a_problem_is_named_and_the_exit_code_is_1(softnpu, variables, problem):
    done = softnpu("doctor", "--no-trial", **variables)
    assert done.returncode == 1
    assert problem in done.stdout.partition("wrong:")[2]
    assert "Traceback" not in done.stderr


def test_an_old_compiler(softnpu, write, tmp_path):
    compiler = write("old-g++", "#!/bin/sh\necho 9.4.0\n")
    compiler.chmod(0o755)
    done = softnpu("doctor", "--no-trial", CXX=str(compiler))
    assert done.returncode == 1
    assert "is 9.4.0, too old; install g++ 12 or newer" in done.stdout


def test_a_toolkit_that_is_not_built(softnpu, tmp_path):
    source = copy_of_the_package(tmp_path / "checkout")
    done = softnpu("doctor", PYTHONPATH=str(source))
    assert done.returncode == 1
    assert "run `make build`" in done.stdout
    assert "not tried" in done.stdout


def test_nothing_is_wrong_here_and_one_addition_runs(softnpu):
    done = softnpu("doctor", SOFTNPU_DEVICES="3", SOFTNPU_SOC="Ascend910B1")
    assert done.returncode == 0, done.stdout
    assert "1 + 1 = 2 on 3 x Ascend910B1" in done.stdout


def test_a_trial_that_fails(softnpu, write):
    """A torch_npu that is there in the right version, and broken."""
    write("torch_npu.py", "raise OSError('libhccl.so: broken')")
    done = softnpu("doctor")
    assert done.returncode == 1
    assert "can't add two numbers on the device: OSError: libhccl.so: broken" in done.stdout


def test_a_missing_library(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.layout, "lib_dir", lambda: tmp_path)
    (tmp_path / "libascendcl.so").touch()
    problems = [finding.problem for finding in doctor.examine(trial=False) if finding.problem]
    assert any("libhccl.so is missing" in problem for problem in problems)
    assert not any("libascendcl.so is missing" in problem for problem in problems)


def test_a_stand_in_is_either_provided_or_left_out():
    provided, absent = standins.load()
    names = [library.soname for library in (*provided, *absent)]
    assert len(names) == len(set(names))
