"""What the effect benchmarks of the trainers share: arms side by side, stored runs, scores, a table."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompt_coevo.demo.evaluate import evaluate
from prompt_coevo.demo.model import base_policy_path
from prompt_coevo.demo.splits import Splits, make_splits
from prompt_coevo.demo.teacher import Teacher
from prompt_coevo.demo.world import World

BATCH, GROUP = 32, 6
SECONDS = 7200
"""A run that takes longer is killed."""

Run = dict[str, Any]
Train = Callable[[str, int, int, int], Run]
"""Arm, seed, epochs and training questions to a run."""


def main(description: str | None, arms: Iterable[str], train: Train) -> None:
    """The command line of a benchmark; runs that its file has already are not repeated."""
    arms = list(arms)
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", nargs="+", choices=arms, default=arms)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--questions", type=int, default=512)
    parser.add_argument("--json", type=Path, help="add the runs to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keys = [{"arm": arm, "seed": seed} for seed in range(options.seeds) for arm in options.arms]
    runs = collect(
        keys,
        lambda key: train(key["arm"], key["seed"], options.epochs, options.questions),
        options.json,
    )
    print(table(runs, arms))


def collect(
    keys: Iterable[Mapping[str, Any]], train: Callable[[Mapping[str, Any]], Run], file: Path | None
) -> list[Run]:
    """A run for every key, and those that the file has already, which are not repeated.

    A run holds its key. The file is written after every run.
    """
    runs: list[Run] = json.loads(file.read_text())["runs"] if file and file.exists() else []
    for key in keys:
        if any(key.items() <= run.items() for run in runs):
            continue
        runs.append(train(key))
        print(json.dumps(runs[-1]), flush=True)
        if file:
            file.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    return runs


def splits_of(seed: int, questions: int) -> Splits:
    """The demo's questions: those to train on, and 512 held out."""
    return make_splits(World(), seed, questions, 512)


def teacher_of(seed: int) -> Callable[[dict[str, Any]], str]:
    """The demo's teacher, for a server that speaks the OpenAI protocol."""
    teacher = Teacher(seed=seed)
    return lambda body: teacher(body["messages"][-1]["content"])


def score(model_folder: Path, splits: Splits, epoch: int) -> dict[str, Any]:
    """The demo's scores: greedy answers to held-out questions without any template."""
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(base_policy_path())
    return vars(evaluate(model, tokenizer, splits, epoch))


def summary(
    arm: str,
    seed: int,
    steps: int,
    *,
    searched: float,
    scores: dict[str, Any],
    seconds: float,
    step_seconds: Iterable[float],
) -> Run:
    """A run as it is stored."""
    return {
        "arm": arm,
        "seed": seed,
        "steps": steps,
        "train_rollouts": steps * BATCH * GROUP,
        "search_rollouts": int(searched),
        "scores": scores,
        "seconds": round(seconds),
        "seconds_per_step": round(statistics.median(step_seconds), 2),
    }


def table(runs: list[Run], arms: Iterable[str]) -> str:
    """Mean and standard deviation over seeds, as Markdown."""
    lines = [
        "| | all | hard | unseen pairs | training + search rollouts |",
        "|---|---|---|---|---|",
    ]
    for arm in arms:
        of_arm = [run for run in runs if run["arm"] == arm]
        if not of_arm:
            continue
        cells = [
            mean([run["scores"][name] for run in of_arm])
            for name in ("all", "hard", "unseen_pairs")
        ]
        searched = statistics.mean(run["search_rollouts"] for run in of_arm)
        trained = of_arm[0]["train_rollouts"]
        cells.append(f"{trained / 1000:.1f}k + {searched / 1000:.1f}k")
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def mean(values: Sequence[float]) -> str:
    """Mean and standard deviation; counts are rounded."""
    digits = 0 if all(isinstance(value, int) for value in values) else 3
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"
