"""Let INSPO evolve a system message for questions that all want the same: opposites, or capitals.

A system message that names all six tasks does not work with this model (language_probe.py); one that names
one task does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from language_studied import Studied

from prompt_coevo.demo.arms import Arm
from prompt_coevo.demo.instruction_teacher import reply, wanted
from prompt_coevo.demo.unnamed.families import UNNAMED, Family
from prompt_coevo.demo.unnamed.tasks import Questions, Task

WORLDS: Final = {"opposites": "opposite of a word", "capitals": "capital of a country"}
"""The family of each world's questions."""
IN_FLOAT32: Final = ("capitals",)
"""The worlds whose published runs multiply in float32 on a CPU."""
TEACHER: Final = {"teacher": "instructions"}
"""Stands for the function `teacher`, which depends on the seed."""
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


def _inspo(label: str, world: str, reserve: int = 0, **inspo: Any) -> Studied:
    """Describe INSPO on the schedule of a run of 44 steps."""
    values = {
        "instruction": _FIRST,
        "evolve_every": 10,
        "evolve_until": 31,
        "verify_size": 16,
        "rounds": 1,
        **inspo,
    }
    return Studied(
        Arm(label, {"algorithms": "inspo", "ground_truth_column": "answer", "inspo": values}),
        TEACHER,
        budgets=0.5,
        reserve=reserve,
        world=world,
    )


def _bare(world: str) -> Studied:
    return Studied(Arm("GRPO, no instruction"), budgets=0.5, world=world)


def _static(world: str) -> Studied:
    return _inspo("a static instruction", world, evolution="off", paraphrase=False)


def _family(world: str) -> Family:
    return next(family for family in UNNAMED if family.name == WORLDS[world])


def questions(world: str, draw: int) -> Questions:
    """Draw items to train on and as many to hold out."""
    family = _family(world)
    tasks = [
        Task(family.question(item), answer, family.name) for item, answer in family.answers.items()
    ]
    random.Random(f"{world}/{draw}").shuffle(tasks)
    training, held_out = tasks[:_TRAINING], tasks[_TRAINING : _TRAINING + _HELD_OUT]
    return Questions(training, held_out, hard=(family.name,), samples=_SAMPLES)


def teacher(world: str, seed: int) -> Callable[[str], str]:
    """Make a teacher that knows the task and draws instructions at random.

    Shown failures, it draws from six plausible ones, of which two are right; asked to paraphrase, from six
    other versions of the first.
    """
    rng = random.Random(f"{seed}|instructions")
    family = _family(world)

    def write(prompt: str) -> str:
        # Only the reflection prompt has questions in it.
        pool = (*family.right, *family.wrong) if "<question>" in prompt else _REWORDED
        return reply(rng.sample(pool, min(wanted(prompt), len(pool))))

    return write


_TWO_PER_CALL: Final = {"paraphrase": False, "candidates_per_call": 2}
"""So that a call does not bring all six instructions at once."""
ARMS: Final = {
    "opposites-grpo": _bare("opposites"),
    "opposites-static": _static("opposites"),
    "opposites-inspo": _inspo("INSPO", "opposites"),
    "opposites-before": _inspo("INSPO, before training", "opposites", evolution="before"),
    "opposites-after": _inspo(
        "INSPO, after training", "opposites", 340, evolution="after", paraphrase=False
    ),
    "opposites-paraphrase": _inspo("INSPO, paraphrase", "opposites", proposer="paraphrase"),
    "capitals-grpo": _bare("capitals"),
    "capitals-static": _static("capitals"),
    "capitals-inspo": _inspo("INSPO", "capitals", **_TWO_PER_CALL),
    "capitals-before": _inspo(
        "INSPO, before training", "capitals", evolution="before", **_TWO_PER_CALL
    ),
}
