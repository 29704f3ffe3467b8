"""Writes the table of element-wise intrinsics into docs/tilelang-ascend.md."""

import sys
from pathlib import Path

from .intrinsics import TABLE, Intrinsic

BEGIN, END = "<!-- intrinsics -->", "<!-- end -->"
_KINDS = {"f": "float", "i": "signed", "u": "unsigned"}


def row(intrinsic: Intrinsic) -> str:
    """One line of the table."""
    kinds = ", ".join(_KINDS[kind] for kind in intrinsic.kinds)
    expr = intrinsic.expr.replace("sn::", "").replace("decltype(x)(0)", "0").replace("|", "\\|")
    operands = " ".join(intrinsic.form)
    return f"| `{intrinsic.name}` | {operands} | `{expr}` | {kinds} | {intrinsic.note} |"


def table() -> str:
    """All rows."""
    return "\n".join(row(intrinsic) for intrinsic in TABLE.values())


def filled(page: str) -> str:
    """The page with the table between its marks."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(filled(file.read_text()))
