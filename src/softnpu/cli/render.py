"""Tables as text: aligned for a terminal or a pipe, JSON, or Markdown."""

import json
import sys
from collections.abc import Sequence

import click

Row = dict[str, str]


def print_rows(columns: Sequence[str], rows: Sequence[Row], form: str) -> None:
    """Prints the rows. `form` is "text", "json" or "md".

    Text is a drawn table on a terminal and plain aligned columns, fit for grep, in a pipe.
    """
    if form == "json":
        click.echo(json.dumps([{name: row[name] for name in columns} for row in rows], indent=1))
    elif form == "md":
        click.echo(_markdown(columns, rows))
    elif sys.stdout.isatty():
        _print_drawn(columns, rows)
    else:
        click.echo(plain(columns, rows))


def plain(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Aligned columns under a header line; the last column is not padded."""
    lines = [list(columns), *([row[name] for name in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    widths[-1] = 0
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _markdown(columns: Sequence[str], rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for row in rows:
        cells = (row[name].replace("|", "\\|") for name in columns)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _print_drawn(columns: Sequence[str], rows: Sequence[Row]) -> None:
    # Only a terminal needs rich, and it takes longer to import than everything else here.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns)
    for row in rows:
        table.add_row(*(Text(row[name]) for name in columns))
    Console().print(table)
