"""`softnpu functions` and `softnpu ops`: what is implemented, from the tables that build it."""

import fnmatch
from collections.abc import Callable
from typing import Any, TypeVar

import click

from softnpu.cli.render import Row, print_rows
from softnpu.errors import BROKEN, USAGE, UserError

_F = TypeVar("_F", bound=Callable[..., Any])


def _table_options(command: _F) -> _F:
    for option in (
        click.option(
            "--format",
            "form",
            type=click.Choice(["text", "json", "md"]),
            default="text",
            help="text (default), json or md.",
        ),
        click.option("--level", help="Only rows of this level."),
        click.argument("pattern", default="*"),
    ):
        command = option(command)
    return command


def _show(rows: list[Row], pattern: str, level: str | None, form: str) -> None:
    levels = {row["level"] for row in rows}
    if level is not None and level not in levels:
        known = ", ".join(sorted(levels))
        raise UserError(f"no row has level {level}; there are {known}", USAGE)
    wildcard = (pattern if "*" in pattern else f"*{pattern}*").lower()
    kept = [
        row
        for row in rows
        if fnmatch.fnmatchcase(row["name"].lower(), wildcard) and level in (None, row["level"])
    ]
    if not kept:
        raise UserError(f"nothing matches {pattern}", BROKEN)
    columns = list(kept[0])
    if form == "text":
        columns.remove("signature")  # too wide beside the others
    print_rows(columns, kept, form)


@click.command()
@_table_options
def functions(pattern: str, level: str | None, form: str) -> None:
    """List the ACL functions and what becomes of a call.

    PATTERN is a part of the name, or a pattern with * in it.
    """
    from softnpu import acltable

    rows = [
        {
            "name": function.name,
            "level": function.level,
            "capture": function.capture,
            "library": function.library,
            "note": function.note,
            "signature": function.signature,
        }
        for function in acltable.load()
    ]
    _show(rows, pattern, level, form)


@click.command()
@_table_options
def ops(pattern: str, level: str | None, form: str) -> None:
    """List the aclnn operators and how each is computed.

    PATTERN is a part of the name, or a pattern with * in it.
    """
    from softnpu import optable

    rows = [
        {
            "name": row.acl,
            "level": row.level,
            "family": row.family,
            "computed": row.aten or row.kernel or row.prepare or "",
            "note": row.note,
            "signature": row.signature,
        }
        for row in optable.load()
    ]
    _show(rows, pattern, level, form)
