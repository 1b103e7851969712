"""Run tier 2: a transformer in the demo's world, under TRL's own trainers."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from arms import ARMS
from store import Key, ResultsError, digest

from prompt_coevo.demo.arms import (
    BUDGET,
    GROUP_SIZE,
    LEARNING_RATE,
    POINTS,
    QUESTIONS,
    QUESTIONS_PER_STEP,
    Arm,
)
from prompt_coevo.demo.results import ArmResult, WordScore, area
from prompt_coevo.demo.splits import SHARES, Shares, held_out_tasks, longer_tasks, training_tasks
from prompt_coevo.demo.teacher import RULES
from prompt_coevo.demo.world import World, base_path
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings.sources import read_preset
from worlds.facts.beliefs import prior

WORLD: Final = "facts"
DRAWS: Final = (0, 1, 2)
SEEDS: Final = tuple(range(10))
HEADLINE: Final = ("grpo", "p2o", "stream")
"""These in all draws with all seeds; the others in the first draw with the first three."""
BASES: Final = Path(os.environ.get("COEVO_BASES", ".bases"))
"""Where the base policies of the further draws are."""


def labels() -> dict[str, str]:
    return {name: studied.spec.label for name, studied in ARMS.items()}


def frozen() -> dict[str, Any]:
    """Return the values that determine each arm's runs, by its name, as JSON values."""
    common = {
        "budget": BUDGET,
        "learning_rate": LEARNING_RATE,
        "points": POINTS,
        "questions": (QUESTIONS, QUESTIONS_PER_STEP, GROUP_SIZE),
        "rules": RULES,
        "worlds": {draw: contents(World(draw)) for draw in DRAWS},
        "base": fingerprint(base_path(World())),
    }
    return {
        name: {
            "common": common,
            "course": [studied.course, studied.options],
            "values": studied.spec.values,
            "preset": _preset(studied.spec),
            "teacher": studied.teacher,
            "error": studied.error,
            "budgets": studied.budgets,
            "reserve": studied.reserve,
            **({"trainer": studied.trainer} if studied.trainer else {}),
        }
        for name, studied in ARMS.items()
    }


def _preset(arm: Arm) -> dict[str, Any]:
    name = (arm.values or {}).get("preset")
    return read_preset(name) if name else {}


def contents(world: World, shares: Shares = SHARES) -> str:
    """Return a hash of the words' meanings, the beliefs about them, and the questions."""
    return digest(
        [
            list(world.meaning.items()),
            list(world.kind.items()),
            prior(world).round(12).tolist(),
            [task.question for task in training_tasks(world, SEEDS[0], QUESTIONS, shares=shares)],
            [task.question for task in (*held_out_tasks(world), *longer_tasks(world))],
        ]
    )


def fingerprint(folder: Path) -> str:
    """Return a hash of a policy's weights."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:12]


def plan(arms: Sequence[str], seeds: int | None, draws: int | None) -> list[Key]:
    """Return the published table's runs, the headline's first; or this many seeds and draws per arm."""
    keys: list[Key] = []
    for name in sorted(arms, key=lambda name: name not in HEADLINE):
        whole = name in HEADLINE
        for draw in DRAWS[: draws or (len(DRAWS) if whole else 1)]:
            keys += [(WORLD, name, seed, draw) for seed in SEEDS[: seeds or (10 if whole else 3)]]
    return sorted(keys, key=lambda key: (key[1] not in HEADLINE, key[2], key[3]))


def check(keys: Sequence[Key]) -> None:
    """Raise ResultsError for an arm whose package is missing, and for an unfit base policy."""
    for name in dict.fromkeys(arm for _, arm, _, _ in keys):
        plugin = ARMS[name].plugin
        if plugin and importlib.util.find_spec(f"prompt_coevo_{plugin}") is None:
            raise ResultsError(
                f"the arm {name} needs the package prompt_coevo_{plugin}: "
                f"pip install docs/plugins/{plugin}"
            )
    from worlds.facts.checks import check as check_base

    for draw in sorted({draw for *_, draw in keys}):
        try:
            check_base(base_of(draw), World(draw))
        except SettingsError as error:
            raise ResultsError(str(error)) from None


def base_of(draw: int) -> Path:
    """Return the folder of the draw's base policy. Raises ResultsError without one."""
    if not draw:
        return base_path(World())
    folder = BASES / f"draw{draw}"
    if not (folder / "config.json").exists():
        raise ResultsError(
            f"there is no base policy for draw {draw} in {folder}: make it with "
            f"python benchmarks/worlds facts --draw {draw} --out {folder}, or set COEVO_BASES"
        )
    return folder


def run(world: str, arm: str, seed: int, draw: int, shares: Shares = SHARES) -> dict[str, Any]:
    """Run once and return JSON values."""
    import torch
    from courses import COURSES, job_of

    torch.set_num_threads(1)
    studied = ARMS[arm]
    with tempfile.TemporaryDirectory() as folder:
        budget = int(BUDGET * studied.budgets)
        job = job_of(arm, studied, seed, Path(folder), draw, base_of(draw), budget, shares)
        result = COURSES[studied.course](job, studied)
    return {
        "world": world,
        "arm": arm,
        "seed": seed,
        "draw": draw,
        "base": fingerprint(base_of(draw)),
        "budget": result.budget,
        "spent": result.spent,
        "curve": {
            kind: [round(value, 4) for value in result.curve(kind)]
            for kind in ("easy", "medium", "hard", "all")
        },
        "words": {word: _summed(score, result) for word, score in result.words.items()},
        "last": {name: [share.right, share.asked] for name, share in result.last.items()},
        "training": result.train_rollouts,
        "outside": result.other_rollouts,
        "barriers": result.batches,
        "calls": result.calls,
        "tokens": result.tokens,
        "seconds": result.seconds,
        "cpu_seconds": result.cpu_seconds,
        "instruction": result.instruction,
    }


def _summed(score: WordScore, result: ArmResult) -> tuple[str, float, float]:
    """Return a word's kind, its right share at the end, and its mean over the budget."""
    shares = [right / score.asked for right in score.right]
    return score.kind, round(shares[-1], 4), round(area(result.spent, shares, result.budget), 4)
