"""`prompt-coevo settings`: what a run would use, and roughly what it would cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from prompt_coevo.sections import Section
from prompt_coevo.settings import Settings


def show(
    preset: str | None = typer.Option(None, help="A preset."),
    config_file: Path | None = typer.Option(None, "--config", help="A YAML or TOML file."),
    questions: int | None = typer.Option(None, min=1, help="Training questions per epoch."),
    group_size: int = typer.Option(8, min=2, help="Rollouts per question (the host's setting)."),
    table: bool = typer.Option(False, "--table", help="All settings as a Markdown table."),
) -> None:
    """Resolve the settings from all sources and show them as JSON.

    With --questions also an estimate of the rollouts of one epoch.
    """
    if table:
        typer.echo("\n".join(["| setting | default | |", "|---|---|---|", *_rows(Settings)]))
        return
    given = {"preset": preset, "config_file": config_file}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    values = settings.model_dump(mode="json", exclude={"reflection": {"function"}})
    typer.echo(json.dumps(values, indent=2))
    if questions is not None:
        typer.echo(_estimate(settings, questions, group_size), err=True)


def _estimate(settings: Settings, questions: int, group_size: int) -> str:
    training = questions * group_size
    if "p2o" not in settings.algorithms:
        return f"an epoch: {training} training rollouts"
    search = settings.p2o
    calls = search.search_budget // search.minibatch_size  # an attempt costs at least B
    return (
        f"an epoch: {training} training rollouts and at most {search.search_budget} search rollouts "
        f"({search.search_budget / training:.0%}), with fewer than {calls} reflection calls"
    )


def _rows(model: type[Any], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from _rows(kind, f"{prefix}{name}.")
            continue
        default = field.get_default(call_default_factory=True)
        text = "none" if default is None else json.dumps(default, ensure_ascii=False, default=str)
        description = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{prefix}{name}` | `{text}` | {description} |"
