"""Initialisation, versions, and the plain objects of the older operator interface."""

import ctypes
import subprocess
from collections.abc import Callable

import pytest

from tests.abi.acl_calls import (
    API_NOT_SUPPORTED,
    INVALID_PARAM,
    OK,
    RT_PARAM_INVALID,
    Acl,
)

byref = ctypes.byref
RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

LOAD = """
import ctypes, os
from pathlib import Path
from softnpu import layout
acl = ctypes.CDLL(str(layout.lib_dir() / "libascendcl.so"))
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
"""


def test_init_once_and_finalize_once(run_python: RunPython) -> None:
    done = run_python(
        LOAD + "print(acl.aclInit(None), acl.aclInit(None), acl.aclFinalize(), acl.aclFinalize())"
    )
    assert done.stdout.split() == ["0", "100002", "0", "100037"], done.stderr


@pytest.mark.parametrize(
    ("text", "number", "device"),
    [
        ('{"dump": {"dump_scene": "lite_exception"}}', 0, (107002, -1)),
        ('{"defaultDevice": {"default_device": "1"}}', 0, (0, 1)),
        ('{"defaultDevice": {"default_device": "77"}}', 107001, (107002, -1)),
        ('{"dump": {"dump_path": "/tmp"}}', 100009, (107002, -1)),
    ],
)
def test_configuration(
    run_python: RunPython, text: str, number: int, device: tuple[int, int]
) -> None:
    done = run_python(
        LOAD
        + f"Path('acl.json').write_text({text!r})\n"
        + "device = ctypes.c_int32(-1)\n"
        + "print(acl.aclInit(b'acl.json'), acl.aclrtGetDevice(ctypes.byref(device)),"
        + " device.value)\n"
        # With a default device, calls in a thread that selected none use it.
        + "stream = ctypes.c_void_p()\n"
        + "print(acl.aclrtCreateStream(ctypes.byref(stream)))\n"
    )
    first, second = done.stdout.splitlines()
    assert first.split() == [str(number), *map(str, device)], done.stderr
    assert int(second) == device[0]


def test_configuration_that_is_not_there(run_python: RunPython) -> None:
    done = run_python(LOAD + "print(acl.aclInit(b'absent.json'), acl.aclGetRecentErrMsg())")
    assert "100003" in done.stdout and "absent.json" in done.stdout


def test_versions(acl_library: Acl) -> None:
    acl = acl_library
    record = ctypes.create_string_buffer(128 + 4 * 64 + 128)

    def parts() -> list[bytes]:
        raw = record.raw
        offsets = [(0, 128)] + [(128 + i * 64, 64) for i in range(4)]
        return [raw[begin : begin + size].split(b"\0")[0] for begin, size in offsets]

    acl.check(acl.aclsysGetCANNVersion(0, record))
    assert parts() == [b"8.5.0", b"8", b"5", b"0", b""]
    acl.check(acl.aclsysGetCANNVersion(7, record))
    assert parts()[0] == b"25.5.0"
    acl.expect(acl.aclsysGetCANNVersion(8, record), RT_PARAM_INVALID, "package 8")
    acl.expect(acl.aclsysGetCANNVersion(0, None), RT_PARAM_INVALID)
    text = ctypes.create_string_buffer(128)
    acl.check(acl.aclsysGetVersionStr(b"ops_nn", text))
    assert text.value == b"8.5.0"
    acl.check(acl.aclsysGetVersionStr(b"driver", text))
    assert text.value == b"25.5.0"
    acl.expect(acl.aclsysGetVersionStr(None, text), RT_PARAM_INVALID)


def test_attributes(acl_library: Acl) -> None:
    value = ctypes.c_int32(-1)
    for attribute, expected in ((0, 1), (1, 1), (2, 0)):  # inf/nan, bf16, operator compiler
        acl_library.check(acl_library.aclGetCannAttribute(attribute, byref(value)))
        assert value.value == expected
    acl_library.expect(acl_library.aclGetCannAttribute(3, byref(value)), RT_PARAM_INVALID)
    acl_library.expect(acl_library.aclGetCannAttribute(0, None), RT_PARAM_INVALID)


def test_tensor_description(acl_library: Acl) -> None:
    acl = acl_library
    dims, size = (ctypes.c_int64 * 2)(3, 5), ctypes.c_int64()
    desc = acl.aclCreateTensorDesc(27, 2, dims, 2)
    assert (acl.aclGetTensorDescType(desc), acl.aclGetTensorDescFormat(desc)) == (27, 2)
    assert acl.aclGetTensorDescNumDims(desc) == 2
    acl.check(acl.aclGetTensorDescDimV2(desc, 1, byref(size)))
    assert size.value == 5
    acl.expect(acl.aclGetTensorDescDimV2(desc, 2, byref(size)), INVALID_PARAM, "index 2")
    acl.expect(acl.aclGetTensorDescDimV2(None, 0, byref(size)), INVALID_PARAM)
    acl.aclSetTensorDescName(desc, b"x")
    acl.check(acl.aclSetTensorFormat(desc, 29))
    acl.check(acl.aclSetTensorShape(desc, 2, dims))
    acl.check(acl.aclSetTensorPlaceMent(desc, 1))
    acl.expect(acl.aclSetTensorPlaceMent(desc, 3), INVALID_PARAM, "type 3")
    acl.expect(acl.aclSetTensorShape(desc, -1, dims), INVALID_PARAM)
    acl.expect(acl.aclSetTensorFormat(None, 29), INVALID_PARAM)
    acl.aclDestroyTensorDesc(desc)
    assert acl.aclCreateTensorDesc(27, 2, None, 2) is None
    assert "dims is null" in acl.message()


def test_data_buffer(acl_library: Acl) -> None:
    buffer = acl_library.aclCreateDataBuffer(1234, 8)
    assert buffer is not None
    acl_library.check(acl_library.aclDestroyDataBuffer(buffer))
    acl_library.expect(acl_library.aclDestroyDataBuffer(None), INVALID_PARAM)


def test_compile_options(acl_library: Acl) -> None:
    acl = acl_library
    assert (
        acl.aclGetCompileoptSize(10) >= len("disable") + 1
    )  # torch_npu wants it before it sets it
    acl.check(acl.aclSetCompileopt(10, b"enable"))
    text = ctypes.create_string_buffer(acl.aclGetCompileoptSize(10))
    acl.check(acl.aclGetCompileopt(10, text, len(text)))
    assert text.value == b"enable"
    acl.expect(acl.aclGetCompileopt(10, text, 3), INVALID_PARAM, "too short")
    acl.expect(acl.aclGetCompileopt(10, None, 8), INVALID_PARAM)
    acl.expect(acl.aclSetCompileopt(17, b"x"), INVALID_PARAM, "option 17")
    acl.expect(acl.aclSetCompileopt(10, None), INVALID_PARAM)
    assert acl.aclGetCompileoptSize(17) == 0
    acl.check(acl.aclSetCompileopt(10, b"disable"))


def test_old_operators_name_themselves(acl_library: Acl) -> None:
    acl = acl_library
    attributes = acl.aclopCreateAttr()
    acl.check(acl.aclopSetAttrInt(attributes, b"axis", 2))
    acl.check(acl.aclopSetAttrBool(attributes, b"keep", 1))
    acl.check(acl.aclopSetAttrFloat(attributes, b"eps", 0.5))
    acl.check(acl.aclopSetAttrString(attributes, b"mode", b"fast"))
    acl.check(acl.aclopSetAttrDataType(attributes, b"dtype", 27))
    numbers = (ctypes.c_int64 * 2)(1, 2)
    acl.check(acl.aclopSetAttrListInt(attributes, b"dims", 2, numbers))
    acl.check(acl.aclopSetAttrListBool(attributes, b"masks", 2, b"\1\0"))
    acl.check(acl.aclopSetAttrListFloat(attributes, b"scales", 1, byref(ctypes.c_float(1))))
    acl.check(acl.aclopSetAttrListListInt(attributes, b"pads", 0, None, None))
    nothing = [0, None, None, 0, None, None]
    for name in ("aclopCompileAndExecute", "aclopCompileAndExecuteV2"):
        number = getattr(acl, name)(b"Mul", *nothing, attributes, 0, 0, None, None)
        acl.expect(number, API_NOT_SUPPORTED, f"{name}(Mul)", "axis=2", "mode=fast", "aclnn")
    acl.aclopDestroyAttr(attributes)
    acl.expect(acl.aclopSetAttrInt(None, b"axis", 2), INVALID_PARAM)
    acl.expect(acl.aclopSetAttrString(None, b"axis", None), INVALID_PARAM)
    acl.expect(acl.aclopSetAttrListInt(None, b"axis", -1, None), INVALID_PARAM)
    acl.expect(acl.aclopSetAttrListListInt(None, b"axis", 1, None, None), INVALID_PARAM)


def test_profiler_accepts_registrations_and_drops_reports(acl_library: Acl) -> None:
    acl = acl_library
    assert acl.MsprofRegisterCallback(1, None) == OK
    assert acl.MsprofReportApi(0, None) == OK
    assert acl.MsprofReportCompactInfo(0, None, 0) == OK
    assert acl.MsprofReportAdditionalInfo(0, None, 0) == OK
    assert acl.MsprofGetHashId(b"Add", 3) == acl.MsprofGetHashId(b"Add", 3)
    assert acl.MsprofGetHashId(b"Add", 3) != acl.MsprofGetHashId(b"Mul", 3)
    first = acl.MsprofSysCycleTime()
    assert 0 < first <= acl.MsprofSysCycleTime()
    version = ctypes.c_int32(-1)
    assert acl.halGetAPIVersion(byref(version)) == OK
    assert version.value == 0
    acl.expect(acl.halGetAPIVersion(None), RT_PARAM_INVALID)


def test_communication_accepts_determinism_only(acl_library: Acl) -> None:
    assert acl_library.HcclSetConfig(0, 1) == OK
    acl_library.expect(acl_library.HcclSetConfig(0, 5), 1, "value 5")
    acl_library.expect(acl_library.HcclSetConfig(1, 1), 5, "option 1")
