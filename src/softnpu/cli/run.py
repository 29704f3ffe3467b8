"""`softnpu run`: a script, module or command on the software NPU."""

import os

import click

from softnpu import dialect, env, launch
from softnpu.cli.options import chosen_settings, device_options
from softnpu.errors import USAGE, UserError

_OPTIONS_WITH_VALUE = {"--soc", "--devices", "--seed", "--hide", "--tilelang"}


class _RunCommand(click.Command):
    """Leaves everything from the script, `-m` or `--` on alone: it belongs to the program.

    click would take the script's options for ours, and drop the `--` that tells a command from
    a script.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = 0
        while end < len(args) and args[end].startswith("-") and args[end] not in ("--", "-m"):
            end += 2 if args[end] in _OPTIONS_WITH_VALUE else 1
        ctx.meta["program"] = args[end:]
        return super().parse_args(ctx, args[:end])

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(
            ctx.command_path, "[OPTIONS] {SCRIPT | -m MODULE | -- COMMAND} [ARGS]..."
        )


@click.command(cls=_RunCommand)
@device_options
@click.option(
    "--tilelang",
    type=click.Choice([dialect.ADAPTER, dialect.MAINLINE, "auto"]),
    default="auto",
    help="Which dialect `import tilelang` gets; auto reads the script's source.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not say which dialect was taken.")
@click.pass_context
def run(ctx: click.Context, tilelang: str, quiet: bool, **options: str | None) -> None:
    """Run a Python script on the software NPU.

    The exit code is the program's. Options come before the script; what follows it is the
    script's.
    """
    chosen = chosen_settings(options)
    program = _program(ctx)
    launch.check_installation()
    decision = launch.dialect_of(program, tilelang)
    _report(decision, tilelang, quiet)
    adapter = decision.dialect == dialect.ADAPTER
    changes = env.changes(os.environ, adapter=adapter, chosen=chosen)
    launch.replace_process(program, {**os.environ, **changes})


def _program(ctx: click.Context) -> launch.Program:
    match ctx.meta["program"]:
        case ["--", first, *rest]:
            return launch.command([first, *rest])
        case ["-m", name, *rest]:
            return launch.module(name, rest)
        case [path, *rest] if path not in ("--", "-m"):
            return launch.script(path, rest)
    raise UserError("nothing to run: name a script, -m MODULE or -- COMMAND", USAGE)


def _report(decision: dialect.Decision, wanted: str, quiet: bool) -> None:
    if decision.uses_tilelang and not quiet:
        why = str(decision.mark) if decision.mark is not None else "nothing tells the two apart"
        click.echo(
            f"softnpu: INFO: tilelang dialect: {decision.dialect} ({why}); "
            "--tilelang chooses another",
            err=True,
        )
    if decision.dialect == dialect.MAINLINE and (decision.uses_tilelang or wanted != "auto"):
        click.echo(
            "softnpu: note: kernels of the mainline dialect can't be compiled yet; "
            "their first compilation will fail and say so",
            err=True,
        )
