"""`prompt-coevo demo`: GRPO and P2O side by side on the small world."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import typer

from prompt_coevo.cli.output import new_folder
from prompt_coevo.demo.names import ARM_NAMES, SUITES
from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import require

_ARMS_HELP = (
    f"Comma-separated. Arms: {', '.join(ARM_NAMES)}. Sets of arms: "
    f"{', '.join('suite:' + name for name in SUITES)}."
)


def demo(
    quick: bool = typer.Option(False, "--quick", help="Half of the usual rollouts."),
    full: bool = typer.Option(
        False, "--full", help="All arms and three seeds: hours on two cores."
    ),
    budget: int | None = typer.Option(
        None, min=192, help="Rollouts of every run, a search's included; 24 576 by default."
    ),
    seeds: int | None = typer.Option(None, min=1, help="How many seeds: 0, 1, ..."),
    arms: str | None = typer.Option(None, help=_ARMS_HELP),
    reflection_lm: str | None = typer.Option(
        None, metavar="MODEL", help="A litellm model in place of the built-in teacher."
    ),
    api_base: str | None = typer.Option(None, help="Base URL of an OpenAI-compatible server."),
    out: Path | None = typer.Option(None, help="Folder to write to; new or empty."),
    json_file: Path | None = typer.Option(
        None, "--json", metavar="FILE", help="Numbers here, too."
    ),
    workers: int | None = typer.Option(None, min=1, help="Runs at once; one per core by default."),
) -> None:
    """Train GRPO and P2O side by side under TRL's GRPOTrainer.

    Every arm has the same number of rollouts, those of a search included. Prints a table, two of the
    evolved templates. The folder gets the same as table.txt, all numbers as results.json, a picture and
    the journal (coevo/events.jsonl) of every run.
    """
    # Late: the other commands start without the demo's worlds and all that they need.
    from prompt_coevo.demo.arms import BUDGET, arm
    from prompt_coevo.demo.facts.world import World

    if quick and (full or budget):
        other = "--full" if full else "--budget"
        raise SettingsError(f"--quick and {other} contradict each other; give one of them")
    if api_base is not None and reflection_lm is None:
        raise SettingsError("--api-base needs --reflection-lm: the model that is served there")
    names = _names(arms or (",".join(ARM_NAMES) if full else "grpo,stream"))
    reflection = _reflection(reflection_lm, api_base)
    for name in names:
        if reflection and arm(name).needs_own_teacher:
            raise SettingsError(
                f"the arm {name} is about the built-in teacher, so --reflection-lm cannot take its place"
            )
        if arm(name).coevolves:
            arm(name).settings(World(), 0, reflection)  # a bad option shows at once
    require("trl", "matplotlib", extra="demo", purpose="the demo")
    folder = new_folder(out, "demo")
    _check_file(json_file)
    from rich.console import Console

    from prompt_coevo.demo.job import Job
    from prompt_coevo.demo.leavings import WIDTH, leave, show
    from prompt_coevo.demo.show import as_json
    from prompt_coevo.demo.side_by_side import run_all
    from prompt_coevo.engine.state import write_json

    jobs = [
        Job(
            arm=name,
            spec=arm(name),
            seed=seed,
            out=folder / f"{name}-seed{seed}",
            budget=budget or (BUDGET // 2 if quick else BUDGET),
            reflection=reflection,
        )
        for seed in range(seeds or (3 if full else 1))
        for name in names
    ]
    for job in jobs:
        if job.rollouts <= job.spec.reserve:
            raise SettingsError(
                f"the arm {job.arm} leaves {job.spec.reserve} rollouts for its search after training; "
                "give a larger --budget"
            )
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)  # a log has no right edge to wrap at
    sizes = sorted({job.rollouts for job in jobs})
    console.print(
        f"{len(jobs)} runs of {' or '.join(map(str, sizes))} rollouts on CPU; evaluation is without any "
        "template."
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
    if json_file is not None:
        write_json(json_file, as_json(results, command))


def _reflection(model: str | None, api_base: str | None) -> dict[str, str] | None:
    """The settings of a model in the teacher's place; None leaves it there."""
    given = {"model": model, "api_base": api_base}
    return {name: value for name, value in given.items() if value is not None} or None


def _names(arms: str) -> list[str]:
    """The arms that the option names, sets of them spelled out, each once."""
    names: list[str] = []
    for part in (part.strip() for part in arms.split(",")):
        suite = part.removeprefix("suite:")
        if suite == part:
            names.append(part)
        elif suite in SUITES:
            names += SUITES[suite]
        else:
            raise SettingsError(f"there is no set of arms {suite!r}; known: {', '.join(SUITES)}")
    return list(dict.fromkeys(names))


def _check_file(path: Path | None) -> None:
    """The numbers are written after everything else, which may be hours."""
    if path is not None and not path.absolute().parent.is_dir():
        raise SettingsError(f"--json {path}: there is no folder {path.absolute().parent}")
