"""Makes this checkout usable in the virtual environment that runs this script.

Installs what pyproject.toml asks for, and links the sources in src by path, so that an edit is live
and that PYTHONPATH can put another checkout first. An editable installation by the build backend
would put an import hook in front of PYTHONPATH, and leave out softnpu.pth.
Usage: dev_install.py CONSTRAINTS
"""

import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_SCRIPT = """#!{python}
import sys

from {module} import {function}

sys.exit({function}())
"""


def main() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", sys.argv[1], *requirements], check=True)

    site = Path(sysconfig.get_path("purelib"))
    # The interpreter reads these in alphabetical order: the sources' path comes first.
    (site / "_softnpu_checkout.pth").write_text(f"{_ROOT / 'src'}\n", encoding="utf-8")
    shutil.copy(_ROOT / "src" / "softnpu.pth", site)
    for name, target in project["scripts"].items():
        module, function = target.split(":")
        script = Path(sysconfig.get_path("scripts")) / name
        text = _SCRIPT.format(python=sys.executable, module=module, function=function)
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)


if __name__ == "__main__":
    main()
