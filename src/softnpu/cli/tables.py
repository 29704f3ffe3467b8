"""`softnpu functions` and `softnpu ops`: what is implemented, from the tables that build it."""

import dataclasses
import fnmatch
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from softnpu.cli.render import Row, print_rows
from softnpu.errors import BROKEN, UserError

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


def _rows(items: Iterable[Any], columns: tuple[str, ...]) -> list[Row]:
    """Table rows as text; what a row does not say is empty."""
    rows = []
    for item in items:
        fields = dataclasses.asdict(item)
        rows.append({name: _text(fields.get(name)) for name in columns})
    return rows


def _text(field: Any) -> str:
    if field is None:
        return ""
    return ", ".join(map(str, field)) if isinstance(field, list | tuple) else str(field)


def _show(
    rows: list[Row], columns: tuple[str, ...], pattern: str, level: str | None, form: str
) -> None:
    levels = {row["level"] for row in rows}
    if level is not None and level not in levels:
        raise UserError(f"no row has level {level}; there are {', '.join(sorted(levels))}", BROKEN)
    wildcard = pattern if "*" in pattern else f"*{pattern}*"
    kept = [
        row
        for row in rows
        if fnmatch.fnmatchcase(row["name"].lower(), wildcard.lower())
        and level in (None, row["level"])
    ]
    if not kept:
        raise UserError(f"nothing matches {pattern}", BROKEN)
    print_rows(columns, kept, form)


@click.command()
@_table_options
def functions(pattern: str, level: str | None, form: str) -> None:
    """List the ACL functions and what becomes of a call.

    PATTERN is a part of the name, or a pattern with * in it.
    """
    from softnpu import acltable

    columns: tuple[str, ...] = ("name", "level", "capture", "library", "note")
    if form == "json":
        columns += ("signature",)
    _show(_rows(acltable.load(), columns), columns, pattern, level, form)


@click.command()
@_table_options
def ops(pattern: str, level: str | None, form: str) -> None:
    """List the aclnn operators and how each is computed.

    PATTERN is a part of the name, or a pattern with * in it.
    """
    from softnpu import optable

    columns = ("name", "level", "computed", "note")
    _show(_rows(optable.load(), columns), columns, pattern, level, form)
