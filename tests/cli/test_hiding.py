"""Functions that libascendcl.so lacks on request, as the library of an older CANN does."""

import os
import subprocess
import sys

import pytest

from softnpu import env, hiding, layout
from softnpu.errors import SettingError

LOOK_UP = (
    "import ctypes; library = ctypes.CDLL('libascendcl.so'); "
    "print([name for name in ('aclrtValueWait', 'aclrtResetEvent') if hasattr(library, name)])"
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTNPU_CACHE_DIR", str(tmp_path / "cache"))


def look_up(hidden: str) -> str:
    changes = env.changes(os.environ, adapter=False, chosen={"SOFTNPU_HIDE": hidden})
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP],
        env={**os.environ, **changes, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_hidden_functions_are_not_found_and_others_are():
    assert look_up("") == "['aclrtValueWait', 'aclrtResetEvent']"
    assert look_up("aclrtValueWait,aclrtValueWrite") == "['aclrtResetEvent']"


def test_a_list_is_made_once():
    first = hiding.library_folder(["aclrtValueWait"])
    state = (first / "libsoftnpu_runtime.so").stat()
    assert hiding.library_folder(["aclrtValueWait"]) == first
    assert (first / "libsoftnpu_runtime.so").stat().st_mtime_ns == state.st_mtime_ns
    assert hiding.library_folder(["aclrtValueWrite"]) != first
    built = (layout.lib_dir() / "libsoftnpu_runtime.so").stat()
    assert state.st_size == built.st_size


def test_a_folder_that_others_can_write_is_refused(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("SOFTNPU_CACHE_DIR", str(shared))
    with pytest.raises(Exception, match="can be written by other users"):
        hiding.library_folder(["aclrtValueWait"])


@pytest.mark.parametrize("text", ["aclrtNoSuchThing", "aclrtValueWait,aclnnAdd"])
def test_only_functions_that_exist_can_be_hidden(text):
    with pytest.raises(SettingError, match="has no function"):
        hiding.check("SOFTNPU_HIDE", text)
