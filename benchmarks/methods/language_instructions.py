"""Let INSPO evolve a system message for questions that all want the same: opposites, or capitals.

A system message that names all six tasks does not work with this model (language_probe.py); one that names
one task does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from language_studied import Pools, Studied

from prompt_coevo.demo.arms import Arm
from prompt_coevo.demo.instruction_teacher import reply, wanted
from prompt_coevo.demo.unnamed.families import UNNAMED, Family
from prompt_coevo.demo.unnamed.tasks import Questions, Task

WORLDS: Final = {"opposites": "opposite of a word", "capitals": "capital of a country"}
"""The family of each world's questions."""
_TRAINING: Final = 18
_HELD_OUT: Final = 18
_SAMPLES: Final = 8
_FIRST: Final = "Answer with one word."
"""Does not name the task."""
_REWORDED: Final = (
    "Reply with a single word.",
    "Give the answer in one word.",
    "Use one word only.",
    "Write one word as the answer.",
    "Let the answer be one word.",
    "Say it with one word.",
)
_AFTER: Final = 128
"""Rollouts that are left for the search after training."""


def _inspo(label: str, world: str, reserve: int = 0, **inspo: Any) -> Studied:
    """INSPO's defaults, but for the schedule of a run of 44 steps and what it costs."""
    values = {
        "instruction": _FIRST,
        "paraphrase": False,
        "evolve_every": 10,
        "evolve_until": 31,
        "candidates_per_call": 2,
        "verify_size": 16,
        "rounds": 1,
        **inspo,
    }
    return Studied(
        Arm(label, {"algorithms": "inspo", "ground_truth_column": "answer", "inspo": values}),
        pools=_pools(world),
        budgets=0.5,
        reserve=reserve,
        world=world,
    )


def _arms(world: str) -> dict[str, Studied]:
    return {
        f"{world}-grpo": Studied(Arm("GRPO, no instruction"), budgets=0.5, world=world),
        f"{world}-static": _inspo("a static instruction", world, evolution="off"),
        f"{world}-inspo": _inspo("INSPO", world),
        f"{world}-before": _inspo("INSPO, before training", world, evolution="before"),
        f"{world}-after": _inspo("INSPO, after training", world, _AFTER, evolution="after"),
        f"{world}-paraphrase": _inspo(
            "INSPO, paraphrase", world, paraphrase=True, proposer="paraphrase"
        ),
    }


def _family(world: str) -> Family:
    return next(family for family in UNNAMED if family.name == WORLDS[world])


def _pools(world: str) -> Pools:
    """Return six plausible instructions, of which two are right, and six other versions of the first."""
    family = _family(world)
    return (*family.right, *family.wrong), _REWORDED


def questions(world: str, draw: int) -> Questions:
    """Draw items to train on and as many to hold out."""
    family = _family(world)
    tasks = [
        Task(family.question(item), answer, family.name) for item, answer in family.answers.items()
    ]
    random.Random(f"{world}/{draw}").shuffle(tasks)
    training, held_out = tasks[:_TRAINING], tasks[_TRAINING : _TRAINING + _HELD_OUT]
    return Questions(training, held_out, hard=(family.name,), samples=_SAMPLES)


def teacher(pools: Pools, seed: int) -> Callable[[str], str]:
    """Make a teacher that draws from the first pool when it is shown failures, and from the second when it
    is asked to paraphrase."""
    rng = random.Random(f"{seed}|instructions")
    improved, reworded = pools

    def write(prompt: str) -> str:
        # Only the reflection prompt has questions in it.
        pool = improved if "<question>" in prompt else reworded
        return reply(rng.sample(pool, min(wanted(prompt), len(pool))))

    return write


ARMS: Final = {name: arm for world in WORLDS for name, arm in _arms(world).items()}
