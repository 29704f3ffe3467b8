"""Fails when a layer includes what only the layers above it may know.

The device engine is below everything: it knows no ACL name, no torch and no Python. The kernel
headers are seen by compiled kernels alone and include nothing of ours but themselves.
"""

import re
import sys
from pathlib import Path

_NATIVE = Path(__file__).resolve().parent.parent / "native"
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
# Folder -> what its includes must not look like.
_FORBIDDEN = {
    "engine": re.compile(r"(^|/)(abi|ops)/|^(acl|aclnn|hccl|torch|ATen|c10)|^Python\.h$"),
    "kernel": re.compile(r"(^|/)(abi|ops|engine)/|^(acl|hccl|torch|ATen|c10)|^Python\.h$"),
    "abi": re.compile(r"(^|/)ops/|^(torch|ATen|c10)/|^Python\.h$"),
}


def violations() -> list[str]:
    """One line per include that crosses a layer upwards, by file and line."""
    above = {path.name for folder in ("abi", "ops") for path in (_NATIVE / folder).rglob("*.h")}
    own = {path.name for path in (_NATIVE / "engine").rglob("*.h")}
    found = []
    for folder, forbidden in _FORBIDDEN.items():
        for path in sorted((_NATIVE / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = _INCLUDE.match(line)
                if match is None:
                    continue
                name = match.group(1)
                upward = folder == "engine" and name in above - own
                if forbidden.search(name) or upward:
                    where = path.relative_to(_NATIVE.parent)
                    found.append(f"{where}:{number}: native/{folder} must not include {name}")
    return found


if __name__ == "__main__":
    lines = violations()
    print("\n".join(lines), file=sys.stderr)
    sys.exit(1 if lines else 0)
