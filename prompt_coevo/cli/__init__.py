"""The command line: `prompt-coevo`."""

from __future__ import annotations

import io
import os
import sys

import typer

from prompt_coevo import __version__
from prompt_coevo.cli import check, demo, plugins, report, retrieval, runs, settings, smoke, smollm2
from prompt_coevo.errors import CoevoError

app = typer.Typer(
    name="prompt-coevo",
    help="Evolve prompts together with the policy, inside an existing RL trainer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("demo")(demo.demo)
app.command("settings")(settings.show)
app.command("report")(report.report)
app.command("explain")(runs.explain)
app.command("diff")(runs.diff)
app.command("best")(runs.best)
app.command("tail")(runs.tail)
app.command("plugins")(plugins.plugins)
app.command("check", epilog=check.EXAMPLE)(check.check)
app.command("smoke", epilog=smoke.EXAMPLE)(smoke.smoke)
app.command("smollm2")(smollm2.smollm2)
app.add_typer(settings.presets, name="presets")
app.add_typer(retrieval.app, name="retrieval")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Show the version.", is_eager=True, callback=_show_version
    ),
) -> None:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb"):
        ctx.color = False  # https://no-color.org


def main() -> None:
    """Run the command line. Print a known error as one sentence and exit with status 2."""
    # As `python -m` does: settings name functions in the user's own files. Last, so as to hide no package.
    if not sys.flags.safe_path:
        sys.path.append(os.getcwd())
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may lack characters
    try:
        app()
    except CoevoError as error:
        # Late: most commands need neither. Errors quote servers and rewards: hide keys and terminal codes.
        from prompt_coevo.redact import redact
        from prompt_coevo.visible import visible

        typer.echo(f"error: {visible(redact(str(error)))}", err=True)
        sys.exit(2)
