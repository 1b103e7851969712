"""Training and held-out questions of all families, and the reward of an answer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from prompt_coevo.demo.unnamed import families
from prompt_coevo.demo.unnamed.families import FAMILIES, UNNAMED, Family

TRAINING: Final = {family.name: 12 for family in UNNAMED} | {"capital, asked": 6, "sum, asked": 10}
HELD_OUT: Final = {family.name: 14 for family in UNNAMED} | {"capital, asked": 6, "sum, asked": 10}
"""How many questions of each family."""


MOST_TOKENS: Final = 20
"""Of an answer to these questions."""


@dataclass(frozen=True)
class Task:
    """A question, its answer, and the name of its family."""

    question: str
    answer: str
    family: str


HARD: Final = tuple(family.name for family in UNNAMED)
PLAIN: Final = tuple(family.name for family in families.PLAIN)


def split(seed: int) -> tuple[list[Task], list[Task]]:
    """Draw training and held-out questions: no item of a family is in both, nor in two families that
    ask for the same answers."""
    rng = random.Random(f"unnamed/{seed}")
    training, held_out = list[Task](), list[Task]()
    used: dict[int, set[str]] = {}
    for family in FAMILIES:
        taken = used.setdefault(id(family.answers), set())
        items = sorted(family.answers.keys() - taken)
        rng.shuffle(items)
        first, second = TRAINING[family.name], HELD_OUT[family.name]
        taken.update(items[: first + second])
        training += [_task(family, item) for item in items[:first]]
        held_out += [_task(family, item) for item in items[first : first + second]]
    return training, held_out


def _task(family: Family, item: str) -> Task:
    return Task(family.question(item), family.answers[item], family.name)


_RIVALS: Final = {label: family.rivals - {label} for family in UNNAMED for label in family.rivals}


def reward(completion: str, answer: str) -> float:
    """Return 1 where the answer stands in the completion as a word, else 0.

    With labels to choose from no other one may stand there; of numbers the last one counts.
    """
    words = re.findall(r"\w+", completion.lower())
    answer = answer.lower()
    if answer.isdigit():
        numbers = [word for word in words if word.isdigit()]
        return float(numbers[-1:] == [answer])
    return float(answer in words and not _RIVALS.get(answer, frozenset()) & set(words))


@dataclass(frozen=True)
class Questions:
    """What is trained on and what is held out, and how an answer is judged.

    `reward` is that of a completion, given the answer; `hard` are the families that a curve is drawn of;
    `most_tokens` those of a completion.
    """

    training: Sequence[Task]
    held_out: Sequence[Task]
    reward: Callable[[str, str], float] = reward
    hard: Sequence[str] = HARD
    most_tokens: int = MOST_TOKENS

    @classmethod
    def unnamed(cls, seed: int) -> Questions:
        """Draw the split with this seed of the questions that do not say what to do."""
        return cls(*split(seed))
