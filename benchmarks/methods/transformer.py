"""Tier 2: a transformer in the world of many facts, under TRL's own trainers.

The arms are the demo's and those that need more than the package: methods from outside, controls without
a search, TRL's self-distillation trainers, and searches on a policy that does not learn.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from store import Key, ResultsError, digest

from prompt_coevo import Question
from prompt_coevo.demo.arms import ARMS as DEMO_ARMS
from prompt_coevo.demo.arms import (
    BUDGET,
    FIRST_INSTRUCTION,
    GROUP_SIZE,
    INSPO,
    LEARNING_RATE,
    POINTS,
    QUESTIONS,
    QUESTIONS_PER_STEP,
    RULES,
    Arm,
    inspo_arm,
    p2o_arm,
)
from prompt_coevo.demo.facts.base_policy import base_path
from prompt_coevo.demo.facts.splits import held_out_tasks, longer_tasks, training_tasks
from prompt_coevo.demo.facts.world import Task, World, clause
from prompt_coevo.demo.results import ArmResult, WordScore, area
from prompt_coevo.demo.world import SKILL_NAMES
from prompt_coevo.errors import SettingsError
from prompt_coevo.placement import question_text
from prompt_coevo.settings.sources import read_preset

WORLD: Final = "facts"
DRAWS: Final = (0, 1, 2)
SEEDS: Final = tuple(range(10))
HEADLINE: Final = ("grpo", "waves", "stream")
"""These in all draws with all seeds; the others in the first draw with the first three."""
BASES: Final = Path(os.environ.get("COEVO_BASES", ".bases"))
"""Where the base policies of the further draws are."""


@dataclass(frozen=True)
class Studied:
    """An arm, the name of what runs it (`courses.py`), and the package from docs/plugins that it needs."""

    spec: Arm
    course: str = "train"
    plugin: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the course is told."""


def _arm(label: str, **values: Any) -> Arm:
    return Arm(label, {"ground_truth_column": "answer", **values})


def _word_of(question: Question) -> str:
    return question_text(question.prompt).split()[1]


def solutions(world: World, tasks: Sequence[Task]) -> dict[str, list[str]]:
    """What a worked solution would say first, as a column."""
    return {"solution": [clause(task.word, world.meaning[task.word]) for task in tasks]}


def random_hints(world: World, seed: int) -> dict[str, object]:
    """Hard questions run under an explanation of their own word that is made up, another each time."""
    from outside import ForTheHard

    def write(question: Question, round: int, count: int) -> list[str]:
        rng = random.Random(f"{seed}|{question.id}|{round}")
        draw = lambda: (rng.choice(SKILL_NAMES), rng.choice(SKILL_NAMES))  # noqa: E731
        return [clause(_word_of(question), draw()) for _ in range(count)]

    return {"hints": ForTheHard(write)}


ARMS: Final[Mapping[str, Studied]] = {
    **{name: Studied(arm) for name, arm in DEMO_ARMS.items()},
    "stream-same-template": Studied(
        _arm(
            "P2O, one template a group",
            algorithms=["outside:ONE_TEMPLATE"],
            plugins={"one-template": {"tau": 0.01, "search_backend": "stream"}},
        )
    ),
    "kl": Studied(replace(p2o_arm("P2O, KL penalty of 0.02"), trainer={"beta": 0.02})),
    "grpo-kl": Studied(Arm("GRPO, KL penalty of 0.02", trainer={"beta": 0.02})),
    "successes-alone": Studied(
        p2o_arm("P2O, failures under templates left out"), "successes alone"
    ),
    "success-weight": Studied(
        p2o_arm("P2O, successes under templates weigh more"), "weighted", options={"weight": 1.0}
    ),
    "random-hints": Studied(
        replace(_arm("random hints, no search", algorithms=[]), plugins=random_hints)
    ),
    "gold-hints": Studied(
        replace(
            _arm(
                "hints from the gold answer",
                algorithms=["hints"],
                row_columns=["solution"],
                hints={
                    "fraction": 1.0,
                    "success_at": 2.0,  # never: the hint stays whole until it is not needed
                    "share": 0.8,
                    "layout": "{{template}} {{question}}",
                },
            ),
            columns=solutions,
        ),
    ),
    "frozen": Studied(p2o_arm("P2O's search, the policy frozen"), "frozen"),
    "frozen-first": Studied(
        p2o_arm("P2O's search on the frozen policy, then training"),
        "frozen first",
        options={"search": 1 / 3},
    ),
    "frozen-instruction": Studied(
        inspo_arm("INSPO's search, the policy frozen", evolve_until=128), "frozen"
    ),
    "inspo-oldest-leave": Studied(
        _arm(
            "INSPO, the oldest leave, not the worst",
            algorithms=["outside:TURNING_OVER"],
            plugins={"turning-over": INSPO},
        )
    ),
    "espl": Studied(
        _arm("E-SPL", algorithms=["espl"], plugins={"espl": {"instruction": FIRST_INSTRUCTION}}),
        "crossing",
        plugin="espl",
    ),
    "sdft": Studied(
        Arm("TRL's SDFT, told the explanations"),
        "sdft",
        options={
            "distillation_mode": "full_logits",
            "distillation_topk": None,
            "teacher_prompt_template": "{privileged_context} {prompt}",
        },
    ),
    "sdpo": Studied(
        Arm("TRL's SDPO"),
        "sdpo",
        options={
            "reprompt_template": "{solution} {prompt}",
            "solution_template": "{successful_previous_attempt} .",
        },
    ),
}


def labels() -> dict[str, str]:
    return {name: studied.spec.label for name, studied in ARMS.items()}


def frozen() -> dict[str, Any]:
    """What decides the meaning of each arm's runs, by its name: JSON values."""
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
            "teacher": studied.spec.teacher,
            "error": studied.spec.error,
            "budgets": studied.spec.budgets,
            "reserve": studied.spec.reserve,
            **({"trainer": studied.spec.trainer} if studied.spec.trainer else {}),
        }
        for name, studied in ARMS.items()
    }


def _preset(arm: Arm) -> dict[str, Any]:
    name = (arm.values or {}).get("preset")
    return read_preset(name) if name else {}


def contents(world: World) -> str:
    """A hash of what words mean, of what is believed of them, and of the questions."""
    return digest(
        [
            list(world.meaning.items()),
            list(world.kind.items()),
            world.prior.round(12).tolist(),
            [task.question for task in training_tasks(world, SEEDS[0], QUESTIONS)],
            [task.question for task in (*held_out_tasks(world), *longer_tasks(world))],
        ]
    )


def fingerprint(folder: Path) -> str:
    """A hash of a policy's weights."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:12]


def plan(arms: Sequence[str], seeds: int | None, draws: int | None) -> list[Key]:
    """The runs of the published table, the headline's first; or so many seeds and draws of each arm."""
    keys: list[Key] = []
    for name in sorted(arms, key=lambda name: name not in HEADLINE):
        whole = name in HEADLINE
        for draw in DRAWS[: draws or (len(DRAWS) if whole else 1)]:
            keys += [(WORLD, name, seed, draw) for seed in SEEDS[: seeds or (10 if whole else 3)]]
    return sorted(keys, key=lambda key: (key[1] not in HEADLINE, key[2], key[3]))


def check(keys: Sequence[Key]) -> None:
    """Raises ResultsError for an arm whose package is missing, and for a base policy that is not fit."""
    for name in dict.fromkeys(arm for _, arm, _, _ in keys):
        plugin = ARMS[name].plugin
        if plugin and importlib.util.find_spec(f"prompt_coevo_{plugin}") is None:
            raise ResultsError(
                f"the arm {name} needs the package prompt_coevo_{plugin}: "
                f"pip install docs/plugins/{plugin}"
            )
    from prompt_coevo.demo.facts.checks import check as check_base

    for draw in sorted({draw for *_, draw in keys}):
        try:
            check_base(base_of(draw), World(draw))
        except SettingsError as error:
            raise ResultsError(str(error)) from None


def base_of(draw: int) -> Path:
    """The folder of the draw's base policy. Raises ResultsError without one."""
    if not draw:
        return base_path(World())
    folder = BASES / f"draw{draw}"
    if not (folder / "config.json").exists():
        raise ResultsError(
            f"there is no base policy for draw {draw} in {folder}: make it with python -m "
            f"prompt_coevo.demo.facts.pretrain --draw {draw} --out {folder}, or set COEVO_BASES"
        )
    return folder


def run(world: str, arm: str, seed: int, draw: int) -> dict[str, Any]:
    """One run, as JSON values."""
    import torch
    from courses import COURSES

    from prompt_coevo.demo.job import Job

    torch.set_num_threads(1)
    studied = ARMS[arm]
    with tempfile.TemporaryDirectory() as folder:
        job = Job(arm, studied.spec, seed, Path(folder), draw, base_of(draw))
        result = COURSES[studied.course](job, studied.options)
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
    """A word's kind, the share that is right at the end, and its mean over the budget."""
    shares = [right / score.asked for right in score.right]
    return score.kind, round(shares[-1], 4), round(area(result.spent, shares, result.budget), 4)
