"""Generates the aclnn functions: ``python -m softnpu.codegen.ops --out DIR --kernels DIR``.

Reads tables/ops/*.yaml, checks every row against PyTorch's schemas and the folder of hand-written
kernels, and writes thunks.gen.cpp, kernels.gen.h and kernels.gen.cpp. Any inconsistency ends it
with status 1 and one line per wrong row, which stops the build.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from softnpu import optable
from softnpu.codegen import ops_emit, ops_schema
from softnpu.optable import OpRow, TableError


def check_kernels(rows: list[OpRow], folder: Path) -> list[str]:
    """A kernel that no row uses, and a row whose kernel has no file of that name."""
    named = [(row.kernel or row.prepare or "", row) for row in rows]
    used = {name.partition(".")[0]: row for name, row in named if name}
    there = {path.stem for path in folder.glob("*.cpp")}
    wrong = [
        f"{used[k].file}: {used[k].acl}: there is no {k}.cpp in {folder.name}/"
        for k in sorted(set(used) - there)
    ]
    return wrong + [
        f"{folder.name}/{k}.cpp: no row uses this kernel" for k in sorted(there - set(used))
    ]


def generate(tables: Path, kernels: Path, out: Path) -> list[str]:
    """Writes the three files; returns what is wrong instead, if anything is."""
    try:
        rows = optable.load(tables)
    except TableError as error:
        return [str(error)]
    wrong = check_kernels(rows, kernels)
    calls = {}
    for row in rows:
        if row.aten:
            try:
                calls[row.acl] = ops_schema.check(row)
            except TableError as error:
                wrong.append(str(error))
    if wrong:
        return wrong
    out.mkdir(parents=True, exist_ok=True)
    (out / "thunks.gen.cpp").write_text(ops_emit.thunks(rows, calls))
    (out / "kernels.gen.h").write_text(ops_emit.kernel_header(rows))
    (out / "kernels.gen.cpp").write_text(ops_emit.kernel_calls(rows))
    return []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m softnpu.codegen.ops")
    parser.add_argument("--out", type=Path, required=True, help="folder for the generated files")
    parser.add_argument(
        "--kernels", type=Path, required=True, help="folder of hand-written kernels"
    )
    parser.add_argument("--tables", type=Path, default=optable.TABLES, help="folder of the tables")
    args = parser.parse_args()
    wrong = generate(args.tables, args.kernels, args.out)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
