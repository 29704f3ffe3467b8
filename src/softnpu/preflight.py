"""Says what to do when torch_npu is imported and the libraries it is linked to are not to be had.

Once torch_npu is installed even a plain `import torch` loads it, and without the environment that
ends in "libhccl.so: cannot open shared object file". softnpu.pth, which the interpreter reads at
every start and which must therefore cost nothing, calls `spec` when torch_npu is looked for.
"""

import ctypes
import os
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from softnpu import layout

_LIBRARY = "libascendcl.so"


def spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The spec of a torch_npu that can't work and says why; None to leave the import alone.

    None when the Ascend libraries can be loaded, ours or CANN's, and when torch_npu is not
    installed. Only to look for torch_npu does not fail: programs do that to learn whether it
    is there.
    """
    if _library_can_be_loaded():
        return None
    found = PathFinder.find_spec(name, path)
    if found is None:
        return None
    refusing = ModuleSpec(name, _Refusal(), origin=found.origin)
    refusing.submodule_search_locations = found.submodule_search_locations
    return refusing


def _library_can_be_loaded() -> bool:
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    if any(folder and os.path.exists(os.path.join(folder, _LIBRARY)) for folder in folders):
        return True
    # Loaded already, preloaded, or known to the dynamic linker's configuration.
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True


class _Refusal(Loader):
    """Loads nothing and says what to do."""

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        checkout = layout.checkout_dir()
        if not layout.toolkit_is_built() and checkout is not None:
            raise ImportError(
                f"{name} needs an Ascend NPU, and the software one is not built: "
                f"run `make build` in {checkout}",
                name=name,
            )
        raise ImportError(
            f"{name} finds no Ascend libraries ({_LIBRARY}) in this environment. To use the "
            "software NPU, start the program with `softnpu run script.py`, or set the environment "
            'first: eval "$(softnpu env)". To use torch without an NPU, set '
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0.",
            name=name,
        )
