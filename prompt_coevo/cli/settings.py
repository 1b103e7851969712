"""`prompt-coevo settings` and `presets`: the values that a run would use, and roughly its cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import typer

from prompt_coevo.redact import redact, secrets_in
from prompt_coevo.settings.presets import preset_names, preset_text

presets = typer.Typer(help="Named sets of settings.", no_args_is_help=True)


def show(
    preset: str | None = typer.Option(None, help="A preset."),
    config_file: Path | None = typer.Option(None, "--config", help="A YAML or TOML file."),
    questions: int | None = typer.Option(None, min=1, help="Training questions per epoch."),
    group_size: int = typer.Option(8, min=2, help="Rollouts per question (the trainer's setting)."),
    table: bool = typer.Option(False, "--table", help="Print all settings as a Markdown table."),
) -> None:
    """Resolve the settings from all sources and show them as JSON.

    With --questions, also estimate rollouts and reflection calls, as `check` does.
    """
    # Imported late: the other commands start without the settings.
    from prompt_coevo.preflight.forecast import forecast
    from prompt_coevo.preflight.page import Page
    from prompt_coevo.settings import Settings
    from prompt_coevo.settings.method import Workload, methods_of

    if table:
        typer.echo("\n".join(["| setting | default | |", "|---|---|---|", *_rows()]))
        return
    given = {"preset": preset, "config_file": config_file}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    values = settings.resolved(exclude={"reflection": {"function"}})
    secrets = secrets_in(settings.reflection.api_base or "")
    typer.echo(redact(json.dumps(values, indent=2), *secrets))
    if questions is not None:
        workload = Workload(questions, group_size)
        lines = forecast(settings, methods_of(settings), workload, price=None)
        typer.echo(Page(tuple(lines)).text(), err=True)


def _rows() -> Iterator[str]:
    from prompt_coevo.settings import setting_fields

    for name, field in setting_fields():
        default = field.get_default(call_default_factory=True)
        text = "none" if default is None else json.dumps(default, ensure_ascii=False, default=str)
        description = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{name}` | `{text}` | {description} |"


@presets.command("list")
def list_presets() -> None:
    """List the presets, each with its first line."""
    names = preset_names()
    width = max(map(len, names))
    for name in names:
        first_line = preset_text(name).partition("\n")[0]
        typer.echo(f"{name:{width}}  {first_line.removeprefix('# ')}")


@presets.command("show")
def show_preset(name: str = typer.Argument(help="A name from the list.")) -> None:
    """Show a preset as TOML."""
    typer.echo(preset_text(name), nl=False)
