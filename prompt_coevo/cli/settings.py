"""`prompt-coevo settings`: what a run would use, and roughly what it would cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from prompt_coevo.settings import Settings


def show(
    preset: str | None = typer.Option(None, help="A preset."),
    config_file: Path | None = typer.Option(None, "--config", help="A YAML or TOML file."),
    questions: int | None = typer.Option(None, min=1, help="Training questions per epoch."),
    group_size: int = typer.Option(8, min=2, help="Rollouts per question (the host's setting)."),
) -> None:
    """Resolve the settings from all sources and show them as JSON.

    With --questions also an estimate of the rollouts of one epoch.
    """
    given = {"preset": preset, "config_file": config_file}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    typer.echo(json.dumps(_plain(settings), indent=2))
    if questions is not None:
        typer.echo(_estimate(settings, questions, group_size), err=True)


def _plain(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude={"reflection": {"function"}})


def _estimate(settings: Settings, questions: int, group_size: int) -> str:
    training = questions * group_size
    if "p2o" not in settings.algorithms:
        return f"an epoch: {training} training rollouts"
    search = settings.p2o
    per_proposal = 2 * search.minibatch_size
    calls = max(0, search.search_budget - search.dev_size) // per_proposal
    return (
        f"an epoch: {training} training rollouts and at most {search.search_budget} search rollouts "
        f"({search.search_budget / training:.0%}), with at most {calls} reflection calls"
    )
