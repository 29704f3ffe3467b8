"""`softnpu doctor`: is everything there that a run needs?"""

import itertools

import click

from softnpu import doctor as examination
from softnpu.errors import BROKEN


@click.command()
@click.option("--no-trial", is_flag=True, help="Do not run torch_npu; takes no time then.")
@click.pass_context
def doctor(ctx: click.Context, no_trial: bool) -> None:
    """Print versions, settings, the chip and the libraries, and what is missing.

    The exit code is 1 if something is wrong.
    """
    problems = []
    findings = examination.examine(trial=not no_trial)
    for section, group in itertools.groupby(findings, key=lambda finding: finding.section):
        click.echo(f"{section}:")
        for finding in group:
            mark = " " if finding.problem is None else "!"
            click.echo(f" {mark} {finding.name:<24} {finding.value}")
            if finding.problem is not None:
                problems.append(finding.problem)
    if problems:
        click.echo("\nwrong:")
        for problem in problems:
            click.echo(f"  {problem}")
        ctx.exit(BROKEN)
    click.echo("\nnothing is wrong")
