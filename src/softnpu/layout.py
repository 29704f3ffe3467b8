"""Where the parts of softnpu lie, in a source checkout and in an installed wheel."""

from pathlib import Path

from softnpu.errors import UserError

_PACKAGE = Path(__file__).resolve().parent


def package_dir() -> Path:
    """The folder of the Python package."""
    return _PACKAGE


def tables_dir() -> Path:
    """The folder of the YAML tables."""
    return _PACKAGE / "tables"


def toolkit_dir() -> Path:
    """The folder that ASCEND_HOME_PATH points to; it looks like an installed CANN toolkit."""
    return _PACKAGE / "toolkit"


def lib_dir() -> Path:
    """The folder of the stand-ins for CANN's libraries; empty until they are built."""
    return toolkit_dir() / "lib64"


def adapter_dir() -> Path:
    """The import folder whose `tilelang` package is the adapter dialect."""
    return toolkit_dir() / "python" / "adapter"


def checkout_dir() -> Path | None:
    """The repository, when the package is used from a source checkout; else None."""
    root = _PACKAGE.parent.parent
    return root if (root / "native" / "kernel").is_dir() else None


def kernel_include_dir() -> Path:
    """The folder of the C++ headers that compiled kernels include, `launch_abi.h` among them."""
    checkout = checkout_dir()
    if checkout is not None:
        return checkout / "native" / "kernel"
    return toolkit_dir() / "include" / "softnpu"


def toolkit_is_built() -> bool:
    """Whether the stand-in for CANN's runtime library exists."""
    return (lib_dir() / "libascendcl.so").exists()


def require_toolkit() -> None:
    """Raises UserError when the libraries are not built, and says how to build them."""
    if toolkit_is_built():
        return
    checkout = checkout_dir()
    if checkout is not None:
        raise UserError(f"the toolkit is not built: run `make build` in {checkout}")
    raise UserError("the installed wheel has no libraries: reinstall softnpu")
