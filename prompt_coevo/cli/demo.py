"""`prompt-coevo demo`: GRPO and the stream side by side in the small world."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from prompt_coevo.cli.output import new_folder, unused_folder
from prompt_coevo.demo.arms import ARMS, BUDGET, Arm, arm
from prompt_coevo.demo.unnamed.arms import ARMS as UNNAMED_ARMS
from prompt_coevo.demo.unnamed.arms import BUDGET as UNNAMED_BUDGET
from prompt_coevo.demo.unnamed.arms import MINUTES, MINUTES_IN_FLOAT32, minutes, runs_in_memory
from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import require
from prompt_coevo.preflight.page import plural
from prompt_coevo.visible import in_a_line

if TYPE_CHECKING:
    from prompt_coevo.demo.job import Job
    from prompt_coevo.demo.results import ArmResult

_ARMS_HELP = f"Comma-separated. Known: {', '.join(ARMS)}; with --real {', '.join(UNNAMED_ARMS)}."


def demo(
    quick: bool = typer.Option(False, "--quick", help="Use half of the usual rollouts."),
    real: bool = typer.Option(
        False,
        "--real",
        help="Train a real language model, SmolLM2-135M-Instruct, on questions that do not say what to do: "
        f"{MINUTES} CPU core minutes per run, {MINUTES_IN_FLOAT32} without bfloat16 in hardware.",
    ),
    model: str | None = typer.Option(
        None,
        help="With --real: another model's folder, or its name on the hub. By default SmolLM2, made from a "
        "wheel on PyPI.",
    ),
    budget: int | None = typer.Option(
        None,
        min=192,
        help="Rollouts per run, including those of searches. By default 24 576, with --real 2 816.",
    ),
    seeds: int = typer.Option(1, min=1, help="Number of seeds: 0, 1, ..."),
    arms: str = typer.Option("grpo,stream", help=_ARMS_HELP),
    reflection_lm: str | None = typer.Option(
        None, metavar="MODEL", help="A litellm model to replace the built-in teacher."
    ),
    api_base: str | None = typer.Option(None, help="Base URL of an OpenAI-compatible server."),
    out: Path | None = typer.Option(None, help="Output folder, new or empty."),
    workers: int | None = typer.Option(
        None,
        min=1,
        help="Concurrent runs. By default one per core, as far as memory allows; with --model one.",
    ),
) -> None:
    """Train GRPO and the stream side by side under TRL's GRPOTrainer.

    Every arm has the same number of rollouts, including those of its search. Prints a table and two of the
    evolved templates. Writes into the folder: what it prints as table.txt, all numbers as results.json, a
    picture, and the journal of every run (coevo/events.jsonl). If it is interrupted, it does so for those
    runs that are finished.
    """
    usual = UNNAMED_BUDGET if real else BUDGET
    rollouts = budget or (usual // 2 if quick else usual)
    note = ""
    if quick and budget:
        raise SettingsError("--quick and --budget contradict each other; give one of them")
    _check_model(model, real)
    reflection = _reflection(reflection_lm, api_base)
    names = list(dict.fromkeys(part.strip() for part in arms.split(",")))
    chosen = {name: arm(name, UNNAMED_ARMS if real else ARMS) for name in names}
    _check_settings(chosen, reflection, real)
    require("trl", "matplotlib", extra="demo", purpose="the demo")
    at_once = min(seeds * len(chosen), workers or os.cpu_count() or 1)
    folder = unused_folder(out, "demo")
    if real and not workers:
        at_once = _fitting(at_once, model)
    base = _base(model) if real else None
    new_folder(folder, "demo")
    if real and model is None:
        in_all = minutes() * rollouts / usual * math.ceil(seeds * len(chosen) / at_once)
        note = f"; {at_once} at once, without a GPU about {in_all:.0f} minutes, if each has its own core"
    from prompt_coevo.demo.job import Job

    jobs = [
        Job(
            arm=name,
            spec=spec,
            seed=seed,
            out=folder / f"{name}-seed{seed}",
            base=base,
            budget=rollouts,
            reflection=reflection,
        )
        for seed in range(seeds)
        for name, spec in chosen.items()
    ]
    _run(jobs, at_once, folder, real, note)


def _run(jobs: Sequence[Job], at_once: int, folder: Path, real: bool, note: str) -> None:
    """Run the jobs, print their table and write their files. If one fails or is interrupted, do so for the
    finished ones."""
    # Imported late: the other commands start without the demo's world and its dependencies.
    from rich.console import Console

    from prompt_coevo.demo.outputs import WIDTH, leave, show
    from prompt_coevo.demo.show import FACTS
    from prompt_coevo.demo.side_by_side import run_all
    from prompt_coevo.demo.unnamed.exhibit import UNNAMED

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)  # a log has no right edge to wrap at
    console.print(
        f"{plural(len(jobs), 'run')} of {jobs[0].budget} rollouts; evaluation uses no template{note}."
    )
    module = "prompt_coevo.demo.unnamed.train" if real else "prompt_coevo.demo.train"
    exhibit = UNNAMED if real else FACTS
    command = shlex.join(["prompt-coevo", *sys.argv[1:]])
    finished: dict[int, ArmResult] = {}

    def keep() -> None:
        if results := [finished[run] for run in sorted(finished)]:
            show(results, console, exhibit)
            for path in leave(results, folder, command, exhibit):
                console.print(f"Written: {path}", soft_wrap=True)

    try:
        run_all(jobs, at_once, console, finished.__setitem__, module)
    except BaseException:
        try:
            keep()
        except Exception as error:  # the first one matters more
            console.print(f"The finished runs cannot be shown: {in_a_line(error)}", markup=False)
        raise
    keep()
    journals = [job.out / "coevo" / "events.jsonl" for job in jobs if job.spec.coevolves]
    if journals:
        more = f" (and {len(journals) - 1} more)" if len(journals) > 1 else ""
        console.print(f"Journal: {journals[0]}{more}", soft_wrap=True)


def _check_model(model: str | None, real: bool) -> None:
    """Raise SettingsError if `--model` would have no effect, or is no model's folder."""
    if model is not None and not real:
        raise SettingsError("--model has no effect without --real; give both")
    from prompt_coevo.demo.smollm2 import is_folder

    if model is not None and is_folder(model) and not Path(model, "config.json").is_file():
        raise SettingsError(
            f"--model {model}: there is no folder with a config.json; give a model's folder"
        )


def _check_settings(
    chosen: Mapping[str, Arm], reflection: Mapping[str, str] | None, real: bool
) -> None:
    """Build the settings of every arm once, so that a bad option fails early."""
    from prompt_coevo.demo.job import settings_of
    from prompt_coevo.demo.world import World
    from prompt_coevo.settings import Settings

    for spec in chosen.values():
        if spec.values is not None and real:
            Settings(reflection=reflection or {"function": str}, **spec.values)
        elif spec.coevolves:
            settings_of(spec, World(), 0, reflection)


def _fitting(most: int, model: str | None) -> int:
    """Return how many runs to make at once: of SmolLM2 at most `most`, as memory allows; of another model
    one, because what its activations take is not known. Raises SettingsError if not even one fits."""
    if model is None:
        return runs_in_memory(most)
    from prompt_coevo.demo.unnamed.load import least_memory, memory_to_train_in

    return runs_in_memory(1, one=least_memory(model), free=memory_to_train_in())


def _base(model: str | None) -> Path:
    """Return `--model`, if its tokenizer can be loaded, or the folder of SmolLM2, made if needed. Raises
    CoevoError."""
    if model is not None:
        from prompt_coevo.demo.unnamed.load import load_tokenizer

        load_tokenizer(model)
        return Path(model)
    from prompt_coevo.demo.smollm2 import smollm2_folder

    return smollm2_folder()


def _reflection(model: str | None, api_base: str | None) -> dict[str, str] | None:
    """Return the settings of the model that replaces the teacher, or None to keep the teacher."""
    if api_base is not None and model is None:
        raise SettingsError("--api-base needs --reflection-lm: the model that is served there")
    if model is not None and not model.strip():
        raise SettingsError(
            "--reflection-lm is empty; give the name of a litellm model, or leave it out"
        )
    given = {"model": model, "api_base": api_base}
    return {name: value for name, value in given.items() if value is not None} or None
