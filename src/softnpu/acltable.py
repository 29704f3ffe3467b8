"""The C interface as a table, tables/acl_functions.yaml: what is exported, how it answers."""

import re
from dataclasses import dataclass

from softnpu import layout

LEVELS = ("implemented", "refuses", "absent")
CAPTURE_RULES = ("allowed", "recorded", "illegal", "query", "n/a")
# Rows of these libraries are defined in libsoftnpu_ops.so, all others in libsoftnpu_runtime.so.
OPS_LIBRARIES = ("opapi", "nnopbase")

_SIGNATURE = re.compile(r"(?P<result>.+?[ *])(?P<name>\w+)\((?P<parameters>.*)\)")


class TableError(ValueError):
    """A row that does not make sense; the message names it."""


@dataclass(frozen=True)
class Function:
    """One C function.

    `level` is one of LEVELS, `capture` one of CAPTURE_RULES (what happens while a stream captures).
    `code` is the number that a refusing function returns, None for its family's; `stderr` says that
    it also reports on standard error, because its callers drop the number.
    """

    name: str
    signature: str
    result: str
    family: str
    library: str
    level: str
    capture: str
    note: str = ""
    code: int | None = None
    stderr: bool = False

    @property
    def in_ops(self) -> bool:
        """Whether libsoftnpu_ops.so defines it."""
        return self.library in OPS_LIBRARIES

    @property
    def exported(self) -> bool:
        """Whether the symbol exists."""
        return self.level != "absent"


def parse(family: str, row: dict[str, object]) -> Function:
    """One row of the YAML file; TableError when it is wrong."""
    signature = str(row.pop("sig", ""))
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise TableError(f"{family}: not a C signature: {signature!r}")
    name = match["name"]
    try:
        function = Function(
            name=name,
            signature=signature,
            result=match["result"].strip().replace(" *", "*"),
            family=family,
            library=str(row.pop("lib")),
            level=str(row.pop("level")),
            capture=str(row.pop("capture")),
            **row,  # type: ignore[arg-type]
        )
    except (KeyError, TypeError) as error:
        raise TableError(f"{name}: {error}") from error
    _check(function)
    return function


def _check(function: Function) -> None:
    if function.level not in LEVELS:
        raise TableError(f"{function.name}: level {function.level!r} is none of {LEVELS}")
    if function.capture not in CAPTURE_RULES:
        raise TableError(
            f"{function.name}: capture {function.capture!r} is none of {CAPTURE_RULES}"
        )
    if function.level != "implemented" and not function.note:
        raise TableError(f"{function.name}: {function.level}, but no note says what to do")
    if function.level != "refuses" and (function.stderr or function.code is not None):
        raise TableError(f"{function.name}: code and stderr belong to refusing functions")


def load() -> list[Function]:
    """All rows, in the table's order."""
    import yaml

    path = layout.tables_dir() / "acl_functions.yaml"
    families = yaml.safe_load(path.read_text(encoding="utf-8"))
    functions = [parse(family, dict(row)) for family, rows in families.items() for row in rows]
    seen: set[str] = set()
    for function in functions:
        if function.name in seen:
            raise TableError(f"{function.name}: two rows")
        seen.add(function.name)
    return functions


def load_errors() -> dict[str, int]:
    """ACL's number for each of the engine's codes, from tables/acl_errors.yaml."""
    import yaml

    path = layout.tables_dir() / "acl_errors.yaml"
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))["errors"]
    numbers = {str(row["code"]): int(row["number"]) for row in rows}
    if len(numbers) != len(rows):
        raise TableError("acl_errors.yaml: a code has two rows")
    return numbers
