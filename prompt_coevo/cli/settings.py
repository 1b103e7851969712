"""`prompt-coevo settings`: what a run would use, and roughly what it would cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from prompt_coevo.settings import Settings
    from prompt_coevo.settings.method import Workload


def show(
    preset: str | None = typer.Option(None, help="A preset."),
    config_file: Path | None = typer.Option(None, "--config", help="A YAML or TOML file."),
    questions: int | None = typer.Option(None, min=1, help="Training questions per epoch."),
    group_size: int = typer.Option(8, min=2, help="Rollouts per question (the host's setting)."),
    table: bool = typer.Option(False, "--table", help="All settings as a Markdown table."),
) -> None:
    """Resolve the settings from all sources and show them as JSON.

    With --questions also an estimate of rollouts and reflection calls.
    """
    # Late: the other commands start without the settings.
    from prompt_coevo.settings import Settings
    from prompt_coevo.settings.method import Workload

    if table:
        typer.echo("\n".join(["| setting | default | |", "|---|---|---|", *_rows()]))
        return
    given = {"preset": preset, "config_file": config_file}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    values = settings.resolved(exclude={"reflection": {"function"}})
    typer.echo(json.dumps(values, indent=2))
    if questions is not None:
        typer.echo(_estimate(settings, Workload(questions, group_size)), err=True)


def _estimate(settings: Settings, workload: Workload) -> str:
    from prompt_coevo.settings.method import methods_of

    lines = [f"an epoch: {workload.rollouts} training rollouts"]
    for method in methods_of(settings).values():
        cost = method.estimate(settings.section(method.section), workload)
        if cost is not None:
            lines.append(
                f"{method.name}, {cost.when}: at most {cost.rollouts} rollouts outside training "
                f"({cost.rollouts / workload.rollouts:.0%} of an epoch's) and {cost.calls} "
                f"reflection calls{cost.note}"
            )
    return "\n".join(lines)


def _rows() -> Iterator[str]:
    from prompt_coevo.settings import setting_fields

    for name, field in setting_fields():
        default = field.get_default(call_default_factory=True)
        text = "none" if default is None else json.dumps(default, ensure_ascii=False, default=str)
        description = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{name}` | `{text}` | {description} |"
