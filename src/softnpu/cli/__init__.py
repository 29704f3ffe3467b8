"""The `softnpu` command. One module per sub-command; none of them loads torch."""

from typing import Any

import click

from softnpu import __version__
from softnpu.cli.doctor import doctor
from softnpu.cli.env import env
from softnpu.cli.run import run
from softnpu.cli.tables import functions, ops
from softnpu.errors import UserError


class _Group(click.Group):
    """Shows a UserError as one line and ends with its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"softnpu: error: {error}", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="softnpu")
def main() -> None:
    """A software Ascend NPU: torch_npu and TileLang scripts on an ordinary machine."""


for command in (run, env, doctor, functions, ops):
    main.add_command(command)
