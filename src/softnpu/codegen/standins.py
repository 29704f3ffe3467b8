"""Writes the stand-in libraries' names for CMake: `python -m softnpu.codegen.standins OUTPUT`.

The file sets SOFTNPU_STANDINS_RUNTIME and SOFTNPU_STANDINS_OPS to target names such as "ascendcl",
one list per library that implements them.
"""

import sys
from pathlib import Path

from softnpu import standins


def render() -> str:
    """The CMake text."""
    provided, _ = standins.load()
    lines = ["# Generated from src/softnpu/tables/standin_libraries.yaml."]
    for over in ("runtime", "ops"):
        names = [
            s.soname.removeprefix("lib").removesuffix(".so") for s in provided if s.over == over
        ]
        lines.append(f"set(SOFTNPU_STANDINS_{over.upper()} {' '.join(names)})")
    return "\n".join(lines) + "\n"


def main() -> None:
    output = Path(sys.argv[1])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
