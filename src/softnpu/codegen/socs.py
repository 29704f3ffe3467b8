"""Writes the chip table as C++: `python -m softnpu.codegen.socs OUTPUT/soc_table.h`.

The header defines `softnpu::kSocs`, an array of the engine's `Soc`, in the table's order.
"""

import sys
from pathlib import Path

from softnpu import socs

# In the order of the members of `struct Soc` in native/engine/settings.h.
_MEMBERS = ("aic", "aiv", "ub", "l1", "l0a", "l0b", "l0c", "l2", "hbm", "npu_arch")


def render() -> str:
    """The header's text."""
    rows = [
        f'    {{"{soc.name}", ' + ", ".join(str(getattr(soc, name)) for name in _MEMBERS) + "},"
        for soc in socs.load().values()
    ]
    return "\n".join(
        [
            "// Generated from src/softnpu/tables/socs.yaml.",
            "#pragma once",
            "",
            '#include "settings.h"',
            "",
            "namespace softnpu {",
            "",
            f"// name, {', '.join(_MEMBERS)}",
            "inline constexpr Soc kSocs[] = {",
            *rows,
            "};",
            "",
            "}  // namespace softnpu",
            "",
        ]
    )


def main() -> None:
    output = Path(sys.argv[1])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
