"""`prompt-coevo settings`: what a run would use, and roughly what it would cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import typer

from prompt_coevo.settings import Settings, setting_fields
from prompt_coevo.settings.inspo import InspoSettings
from prompt_coevo.settings.p2o import P2OSettings


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
    if table:
        typer.echo("\n".join(["| setting | default | |", "|---|---|---|", *_rows()]))
        return
    given = {"preset": preset, "config_file": config_file}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    values = settings.model_dump(mode="json", exclude={"reflection": {"function"}})
    typer.echo(json.dumps(values, indent=2))
    if questions is not None:
        typer.echo(_estimate(settings, questions, group_size), err=True)


def _estimate(settings: Settings, questions: int, group_size: int) -> str:
    training = questions * group_size
    lines = [f"an epoch: {training} training rollouts"]
    if "p2o" in settings.algorithms:
        lines.append(_p2o_estimate(settings.p2o, training))
    if "inspo" in settings.algorithms:
        lines.append(_inspo_estimate(settings.inspo))
    return "\n".join(lines)


def _p2o_estimate(p2o: P2OSettings, training: int) -> str:
    calls = p2o.search_budget // p2o.minibatch_size  # an attempt costs at least B
    # Half of the hard questions are set aside, and B cannot exceed the others.
    enough = 2 * p2o.minibatch_size - 1
    return (
        f"p2o, after an epoch: at most {p2o.search_budget} search rollouts "
        f"({p2o.search_budget / training:.0%}), with fewer than {calls} reflection calls, or up to "
        f"{p2o.search_budget} if fewer than {enough} questions are hard"
    )


def _inspo_estimate(inspo: InspoSettings) -> str:
    evolutions = len(range(inspo.evolve_every, inspo.evolve_until, inspo.evolve_every))
    if inspo.evolution == "off":
        return "inspo: no evolutions"
    tried = inspo.rounds * inspo.candidates_per_call + inspo.parents
    if (
        inspo.reflection == "overlapped"
    ):  # every round meets other weights, so its parent runs again
        tried = inspo.rounds * (inspo.candidates_per_call + 1)
    rollouts = evolutions * tried * inspo.verify_size if inspo.verify else 0
    if inspo.evolution != "online":
        rollouts += (evolutions + 1) * inspo.population_size * inspo.verify_size
    return (
        f"inspo, in the whole run: {evolutions} evolutions with at most {rollouts} verification rollouts "
        f"and {evolutions * inspo.rounds} reflection calls, and those for the paraphrases"
    )


def _rows() -> Iterator[str]:
    for name, field in setting_fields(Settings):
        default = field.get_default(call_default_factory=True)
        text = "none" if default is None else json.dumps(default, ensure_ascii=False, default=str)
        description = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{name}` | `{text}` | {description} |"
