"""Let INSPO evolve a system message for questions that all want the same: the opposite of a word.

A system message that names all six tasks does not work with this model (language_probe.py); one that names
one task does.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any, Final

from language_studied import Studied

from prompt_coevo.demo.arms import Arm
from prompt_coevo.demo.unnamed.families import UNNAMED, Family
from prompt_coevo.demo.unnamed.tasks import Questions, Task

WORLD: Final = "opposites"
NAME: Final = "opposite of a word"
TEACHER: Final = "instructions"
_TRAINING: Final = 18
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
_COUNT: Final = re.compile(r"[Ww]rite (\d+) ")


def _inspo(label: str, reserve: int = 0, **inspo: Any) -> Studied:
    """INSPO's defaults, but for the schedule of a run of 44 steps and what it costs."""
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
        {"teacher": TEACHER},
        budgets=0.5,
        reserve=reserve,
        world=WORLD,
    )


ARMS: Final = {
    "one-grpo": Studied(Arm("GRPO, no instruction"), budgets=0.5, world=WORLD),
    "one-static": _inspo("a static instruction", evolution="off", paraphrase=False),
    "one-inspo": _inspo("INSPO"),
    "one-before": _inspo("INSPO, before training", evolution="before"),
    "one-after": _inspo("INSPO, after training", 340, evolution="after", paraphrase=False),
    "one-paraphrase": _inspo("INSPO, paraphrase", proposer="paraphrase"),
}


def _family() -> Family:
    return next(family for family in UNNAMED if family.name == NAME)


def questions(draw: int) -> Questions:
    """Draw half of the words to train on, and hold the others out."""
    family = _family()
    tasks = [Task(family.question(item), answer, NAME) for item, answer in family.answers.items()]
    random.Random(f"{WORLD}/{draw}").shuffle(tasks)
    return Questions(tasks[:_TRAINING], tasks[_TRAINING:], hard=(NAME,), samples=_SAMPLES)


def teacher(seed: int) -> Callable[[str], str]:
    """Make a teacher that shuffles instructions: shown failures, six plausible ones of which two are right;
    asked to paraphrase, six other versions of the first. By default INSPO asks for six, so for all."""
    rng = random.Random(f"{seed}|{TEACHER}")
    family = _family()

    def write(prompt: str) -> str:
        # Only the reflection prompt has questions in it.
        pool = (*family.right, *family.wrong) if f"{family.label}: " in prompt else _REWORDED
        asked = _COUNT.search(prompt)
        texts = rng.sample(pool, min(int(asked[1]) if asked else 1, len(pool)))
        return "\n\n".join(
            f"<ins_{number}>\n{text}\n</ins_{number}>" for number, text in enumerate(texts, start=1)
        )

    return write
