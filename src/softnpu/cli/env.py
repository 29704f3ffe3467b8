"""`softnpu env`: the environment, for a shell to take over."""

import os

import click

from softnpu import dialect, layout
from softnpu import env as environment
from softnpu.cli.options import chosen_settings, device_options


@click.command()
@device_options
@click.option(
    "--tilelang",
    type=click.Choice([dialect.ADAPTER, dialect.MAINLINE]),
    default=dialect.ADAPTER,
    help="Which dialect `import tilelang` gets (adapter).",
)
def env(tilelang: str, **options: str | None) -> None:
    """Print the exports that make this shell find softnpu.

    Use it as: eval "$(softnpu env)"
    """
    layout.require_toolkit()
    chosen = chosen_settings(options)
    variables = environment.changes(os.environ, adapter=tilelang == dialect.ADAPTER, chosen=chosen)
    click.echo(environment.shell_exports(variables), nl=False)
