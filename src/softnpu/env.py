"""The environment that makes a process find softnpu where it expects CANN.

`toolkit/set_env.sh` sets the same variables from a shell; keep both alike.
"""

import os
import shlex
import sys
from collections.abc import Mapping

from softnpu import hiding, layout


def _first(entry: str, path_list: str) -> str:
    """The path list with this entry in front, and nowhere else."""
    return os.pathsep.join([entry, *_without(entry, path_list)])


def _without(entry: str, path_list: str) -> list[str]:
    return [other for other in path_list.split(os.pathsep) if other and other != entry]


def _with_python(search_path: str) -> str:
    """The search path, led by this virtual environment when it is not activated.

    `python3` is then the interpreter that has torch_npu, as it is after CANN's set_env.sh.
    """
    programs = os.path.join(sys.prefix, "bin")
    if sys.prefix == sys.base_prefix or programs in search_path.split(os.pathsep):
        return search_path
    return _first(programs, search_path)


def changes(
    base: Mapping[str, str], *, adapter: bool, chosen: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables to set on top of `base`; applying them twice is the same as once.

    `adapter` puts the adapter dialect's `tilelang` first on PYTHONPATH, else it is taken off.
    `chosen` are SOFTNPU_* variables that the user gave as options.
    """
    toolkit = str(layout.toolkit_dir())
    adapter_dir = str(layout.adapter_dir())
    python_path = base.get("PYTHONPATH", "")
    if adapter:
        python_path = _first(adapter_dir, python_path)
    else:
        python_path = os.pathsep.join(_without(adapter_dir, python_path))
    libraries = _first(str(layout.lib_dir()), base.get("LD_LIBRARY_PATH", ""))
    hidden = hiding.names({**base, **(chosen or {})}.get(hiding.VARIABLE, ""))
    if hidden:
        libraries = _first(str(hiding.library_folder(hidden)), libraries)
    result = {
        "ASCEND_HOME_PATH": toolkit,
        "ASCEND_TOOLKIT_HOME": toolkit,
        "ASCEND_OPP_PATH": os.path.join(toolkit, "opp"),
        "LD_LIBRARY_PATH": libraries,
        "PATH": _first(os.path.join(toolkit, "bin"), _with_python(base.get("PATH", os.defpath))),
    }
    if python_path or "PYTHONPATH" in base:
        result["PYTHONPATH"] = python_path
    return result | dict(chosen or {})


def shell_exports(variables: Mapping[str, str]) -> str:
    """Lines of POSIX shell that set these variables, whatever characters they hold."""
    return "".join(f"export {name}={shlex.quote(text)}\n" for name, text in variables.items())
