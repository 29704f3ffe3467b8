"""The programs of the toolkit's bin folder, and the files that torch_npu looks for."""

import subprocess
import sys

import pytest

from softnpu import layout, settings, socs
from softnpu.codegen import socs as soc_header
from softnpu.codegen import standins as standin_list


def tool(name: str, *arguments: str, environment: dict[str, str]):
    return subprocess.run(
        [layout.toolkit_dir() / "bin" / name, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def environment(plain_environment):
    """npu-smi runs with the first python3 on PATH."""
    folder = sys.executable.rpartition("/")[0]
    return {**plain_environment, "PATH": f"{folder}:{plain_environment['PATH']}"}


@pytest.mark.parametrize("name", ["msprof", "bisheng", "ld.lld"])
def test_what_is_not_implemented_names_itself_and_fails(name, environment):
    done = tool(name, "op", "--kernel-name=x", "python3", "x.py", environment=environment)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"softnpu: error: {name}: ")


def test_npu_smi_shows_the_devices_of_the_settings(environment):
    variables = {"SOFTNPU_DEVICES": "3", "SOFTNPU_SOC": "Ascend910B4"}
    done = tool("npu-smi", "info", environment={**environment, **variables})
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "910B4" in line]
    assert len(rows) == 3
    assert "- / 32768" in rows[0]


@pytest.mark.parametrize(
    ("arguments", "variables", "word"),
    [
        (["info", "-t", "board"], {}, "only `npu-smi info`"),
        (["info"], {"SOFTNPU_SOC": "x"}, "unknown SoC"),
    ],
)
def test_npu_smi_refuses(environment, arguments, variables, word):
    done = tool("npu-smi", *arguments, environment={**environment, **variables})
    assert done.returncode == 1
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_torch_npu_finds_the_folders_and_the_version_it_checks():
    for folder in ("runtime", "compiler", "opp"):
        assert (layout.toolkit_dir() / folder).is_dir()
    info = (layout.toolkit_dir() / "ascend_toolkit_install.info").read_text(encoding="utf-8")
    default = settings.by_variable("SOFTNPU_CANN_VERSION").default
    assert f"version={default}" in info.splitlines()


def test_the_default_soc_is_known():
    assert settings.DEFAULT_SOC in socs.load()


def test_kernel_headers_are_where_layout_says():
    assert (layout.kernel_include_dir() / "launch_abi.h").is_file()


def test_the_engine_has_the_same_defaults():
    """The engine reads the same variables, and its defaults are written down there again."""
    checkout = layout.checkout_dir()
    if checkout is None:
        pytest.skip("an installed wheel has no engine sources")
    header = (checkout / "native" / "engine" / "settings.h").read_text(encoding="utf-8")
    for variable, member in [
        ("SOFTNPU_DEVICES", "devices = {}"),
        ("SOFTNPU_THREADS", "threads = {}"),
        ("SOFTNPU_STREAM_LIMIT", "stream_limit = {}"),
        ("SOFTNPU_STREAM_ERROR", "stream_error = {}"),
        ("SOFTNPU_CANN_VERSION", 'cann_version = "{}"'),
        ("SOFTNPU_DRIVER_VERSION", 'driver_version = "{}"'),
        ("SOFTNPU_HANG_SECONDS", "hang_seconds = {}"),
    ]:
        default = settings.by_variable(variable).default
        assert member.format(default) + ";" in header


def test_the_generated_header_has_a_row_per_soc():
    text = soc_header.render()
    for soc in socs.load().values():
        assert f'{{"{soc.name}", {soc.aic}, {soc.aiv}, {soc.ub}, {soc.l1}, ' in text


def test_the_generated_cmake_list_has_the_libraries():
    assert "set(SOFTNPU_STANDINS_OPS opapi nnopbase)" in standin_list.render()
