"""`prompt-coevo demo`: GRPO and the stream side by side on the small world."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import typer

from prompt_coevo.cli.output import new_folder
from prompt_coevo.demo.arms import ARMS, BUDGET, arm
from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import require

_ARMS_HELP = f"With commas between them. Known: {', '.join(ARMS)}."


def demo(
    quick: bool = typer.Option(False, "--quick", help="Half of the usual rollouts."),
    budget: int | None = typer.Option(
        None, min=192, help="Rollouts of every run, a search's included; 24 576 by default."
    ),
    seeds: int = typer.Option(1, min=1, help="How many seeds: 0, 1, ..."),
    arms: str = typer.Option("grpo,stream", help=_ARMS_HELP),
    reflection_lm: str | None = typer.Option(
        None, metavar="MODEL", help="A litellm model in place of the built-in teacher."
    ),
    api_base: str | None = typer.Option(None, help="Base URL of an OpenAI-compatible server."),
    out: Path | None = typer.Option(None, help="Folder to write to; new or empty."),
    workers: int | None = typer.Option(None, min=1, help="Runs at once; one per core by default."),
) -> None:
    """Train GRPO and the stream side by side under TRL's GRPOTrainer.

    Every arm has the same number of rollouts, those of a search included. Prints a table, two of the
    evolved templates. The folder gets the same as table.txt, all numbers as results.json, a picture and
    the journal (coevo/events.jsonl) of every run.
    """
    # Late: the other commands start without the demo's world and all that it needs.
    from prompt_coevo.demo.job import Job, settings_of
    from prompt_coevo.demo.world import World

    if quick and budget:
        raise SettingsError("--quick and --budget contradict each other; give one of them")
    if api_base is not None and reflection_lm is None:
        raise SettingsError("--api-base needs --reflection-lm: the model that is served there")
    names = list(dict.fromkeys(part.strip() for part in arms.split(",")))
    reflection = _reflection(reflection_lm, api_base)
    for name in names:
        if arm(name).coevolves:
            settings_of(arm(name), World(), 0, reflection)  # a bad option shows at once
    require("trl", "matplotlib", extra="demo", purpose="the demo")
    folder = new_folder(out, "demo")
    from rich.console import Console

    from prompt_coevo.demo.leavings import WIDTH, leave, show
    from prompt_coevo.demo.side_by_side import run_all

    jobs = [
        Job(
            arm=name,
            spec=arm(name),
            seed=seed,
            out=folder / f"{name}-seed{seed}",
            budget=budget or (BUDGET // 2 if quick else BUDGET),
            reflection=reflection,
        )
        for seed in range(seeds)
        for name in names
    ]
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)  # a log has no right edge to wrap at
    console.print(
        f"{len(jobs)} runs of {jobs[0].budget} rollouts on CPU; evaluation is without any template."
    )
    results = run_all(jobs, min(len(jobs), workers or os.cpu_count() or 1), console)
    show(results, console)
    command = shlex.join(["prompt-coevo", *sys.argv[1:]])
    for path in leave(results, folder, command):
        console.print(f"Written: {path}", soft_wrap=True)
    journals = [job.out / "coevo" / "events.jsonl" for job in jobs if job.spec.coevolves]
    for journal in journals[:1]:
        more = f" (and {len(journals) - 1} more)" if len(journals) > 1 else ""
        console.print(f"Journal: {journal}{more}", soft_wrap=True)


def _reflection(model: str | None, api_base: str | None) -> dict[str, str] | None:
    """The settings of a model in the teacher's place; None leaves it there."""
    given = {"model": model, "api_base": api_base}
    return {name: value for name, value in given.items() if value is not None} or None
