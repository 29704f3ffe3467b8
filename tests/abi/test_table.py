"""The table, the library and each other: what is exported, what refuses, what is absent."""

import ctypes
import re
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from softnpu import acltable, layout, standins
from softnpu.acltable import Function
from softnpu.codegen import acl as generator
from tests.abi.acl_calls import OK, Acl

FUNCTIONS = acltable.load()
RUNTIME = [f for f in FUNCTIONS if not f.in_ops]
REFUSING = [f for f in RUNTIME if f.level == "refuses"]
ABSENT = [f for f in RUNTIME if f.level == "absent"]


def exported(library: Path) -> set[str]:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    return {line.split()[2].split("@")[0] for line in done.stdout.splitlines()}


def test_library_exports_the_table_and_nothing_else(acl_library: Acl) -> None:
    symbols = exported(layout.lib_dir() / "libsoftnpu_runtime.so")
    foreign = {s for s in symbols if not s.startswith(("softnpu_", "_ZN", "_ZT", "_ZK"))}
    assert foreign == {f.name for f in RUNTIME if f.exported}
    # C++ is the engine's namespace alone, for the operators' library.
    assert all("7softnpu" in s for s in symbols if s.startswith("_Z"))


@pytest.mark.parametrize("function", REFUSING, ids=lambda f: f.name)
def test_refusing_function_names_itself(acl_library: Acl, function: Function) -> None:
    call = getattr(acl_library, function.name)
    result = call(*(argument() for argument in call.argtypes))
    expected = generator.refusal_value(function)
    assert result == (None if expected in ("", "nullptr") else int(expected))
    assert result != OK
    assert acl_library.message().startswith(f"{function.name} is not implemented by softnpu: ")
    assert function.note in acl_library.message()


@pytest.mark.parametrize("function", ABSENT, ids=lambda f: f.name)
def test_absent_function_is_absent(acl_library: Acl, function: Function) -> None:
    assert not hasattr(acl_library.library, function.name)


@pytest.mark.parametrize("standin", [s for s in standins.load()[0] if s.over == "runtime"])
def test_standin_finds_functions_of_its_library(
    acl_library: Acl, standin: standins.Standin
) -> None:
    library = ctypes.CDLL(str(layout.lib_dir() / standin.soname))
    name = standin.soname.removeprefix("lib").removesuffix(".so")
    for function in RUNTIME:
        if function.exported and function.library == name:
            assert hasattr(library, function.name)
    assert hasattr(library, "aclrtSetDevice")


def test_rows_name_a_standin_or_a_library_left_out() -> None:
    provided, left_out = standins.load()
    known = {s.soname for s in provided} | {s.soname for s in left_out}
    for function in FUNCTIONS:
        assert f"lib{function.library}.so" in known, function.name
        if f"lib{function.library}.so" in {s.soname for s in left_out}:
            assert function.level == "absent", function.name


def test_every_symbol_that_tilelang_links_exists(acl_library: Acl) -> None:
    # The wheel, wherever it is: the adapter dialect's package of the same name may come before it.
    try:
        wheel = distribution("tilelang")
    except PackageNotFoundError:
        pytest.skip("tilelang is not installed")
    stub = Path(str(wheel.locate_file("tilelang/lib/libstub_ascendcl.so")))
    wanted = {s for s in exported(stub) if re.match(r"acl|rt[A-Z]|Hccl", s)}
    assert wanted  # the stub's own functions are those that it looks up
    assert wanted <= {f.name for f in RUNTIME if f.level == "implemented"}


def test_every_implemented_function_is_tested() -> None:
    tests = "\n".join(p.read_text(encoding="utf-8") for p in Path(__file__).parent.glob("*.py"))
    untested = [
        f.name
        for f in RUNTIME
        if f.level == "implemented" and not re.search(rf"\b{f.name}\b", tests)
    ]
    assert untested == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"sig": "aclError broken", "lib": "ascendcl"}, "not a C signature"),
        ({"sig": "int f()", "lib": "x", "level": "done", "capture": "n/a"}, "level 'done'"),
        ({"sig": "int f()", "lib": "x", "level": "implemented", "capture": "no"}, "capture 'no'"),
        ({"sig": "int f()", "lib": "x", "level": "absent", "capture": "n/a"}, "no note"),
        ({"sig": "int f()", "level": "absent", "capture": "n/a", "note": "x"}, "lib"),
        (
            {"sig": "int f()", "lib": "x", "level": "implemented", "capture": "n/a", "nota": "x"},
            "nota",
        ),
    ],
)
def test_wrong_row_is_refused(row: dict[str, object], words: str) -> None:
    with pytest.raises(acltable.TableError, match=re.escape(words)):
        acltable.parse("family", dict(row))


def test_refusal_values() -> None:
    by_name = {f.name: generator.refusal_value(f) for f in REFUSING}
    # torch_npu's check macro takes 207000 for a warning and goes on, so acl* must not return it.
    assert by_name["aclrtDeviceTaskAbort"] == "200001"
    assert by_name["HcclAllReduce"] == "5"
    assert by_name["aclprofCreateConfig"] == "nullptr"
    assert by_name["dcmi_init"] == "-8255"
    assert by_name["aclprofDestroyStepInfo"] == ""


def test_every_code_of_the_engine_has_a_number() -> None:
    checkout = layout.checkout_dir()
    if checkout is None:
        pytest.skip("needs the sources")
    header = (checkout / "native" / "engine" / "error.h").read_text(encoding="utf-8")
    body = header[header.index("enum class Code {") : header.index("};")]
    codes = re.findall(r"^  (\w+),", body, re.MULTILINE)
    assert set(codes) - {"Ok"} == set(acltable.load_errors())
