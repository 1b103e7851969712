"""Training and held-out questions of all families, and the reward of an answer."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from prompt_coevo.demo.unnamed import families
from prompt_coevo.demo.unnamed.families import FAMILIES, UNNAMED, Family
from prompt_coevo.demo.unnamed.values import SAMPLES

TRAINING: Final = {family.name: 12 for family in UNNAMED} | {"capital, asked": 6, "sum, asked": 10}
HELD_OUT: Final = {family.name: 14 for family in UNNAMED} | {"capital, asked": 6, "sum, asked": 10}
"""Number of held-out questions per family."""


MOST_TOKENS: Final = 20
"""Tokens of an answer to these questions."""


@dataclass(frozen=True)
class Task:
    """A question, its answer, and the name of its family."""

    question: str
    answer: str
    family: str


HARD: Final = tuple(family.name for family in UNNAMED)
PLAIN: Final = tuple(family.name for family in families.PLAIN)


def split(seed: int) -> tuple[list[Task], list[Task]]:
    """Draw training and held-out questions. No item of a family is in both, nor in two families with the
    same answers. Where there are labels, each has equally many questions."""
    rng = random.Random(f"unnamed/{seed}")
    training, held_out = list[Task](), list[Task]()
    used: dict[int, set[str]] = {}
    for family in FAMILIES:
        taken = used.setdefault(id(family.answers), set())
        items = _in_turn(family, sorted(family.answers.keys() - taken), rng)
        first, second = TRAINING[family.name], HELD_OUT[family.name]
        taken.update(items[: first + second])
        training += [_task(family, item) for item in items[:first]]
        held_out += [_task(family, item) for item in items[first : first + second]]
    return training, held_out


def _in_turn(family: Family, items: list[str], rng: random.Random) -> list[str]:
    """Shuffle items, then alternate between labels."""
    rng.shuffle(items)
    by_label = [
        [item for item in items if family.answers[item] == label] for label in sorted(family.labels)
    ]
    return [item for row in zip(*by_label, strict=True) for item in row] or items


def _task(family: Family, item: str) -> Task:
    return Task(family.question(item), family.answers[item], family.name)


_RIVALS: Final = {
    answer: {*family.answers.values()} - {answer}
    for family in UNNAMED
    for answer in family.answers.values()
}


def reward(completion: str, answer: str) -> float:
    """Return 1 if the completion contains the answer as a word and no other answer of its family, else 0.

    Letters must match the answer's case, except that a lower-case answer may be capitalised. Accents in the
    completion are ignored. Of several numbers, the last one counts.
    """
    plain = unicodedata.normalize("NFKD", completion)
    text = "".join(letter for letter in plain if not unicodedata.combining(letter))
    words = re.findall(r"\w+", text.lower() if answer.islower() else text)
    if answer.isdigit():
        numbers = [word for word in words if word.isdigit()]
        return float(numbers[-1:] == [answer])
    return float(answer in words and not _RIVALS.get(answer, set()) & set(words))


def matches(completion: str, pattern: str) -> float:
    """Return 1 if a regular expression matches the whole completion, without white space at its ends, else
    0. A dot matches line breaks."""
    return float(re.fullmatch(pattern, completion.strip(), re.DOTALL) is not None)


@dataclass(frozen=True)
class Questions:
    """The training and held-out questions, and how to judge an answer.

    `reward` judges a completion, given the answer. `hard` are the families that get a curve. `most_tokens`
    limits a completion. `samples` is how many are drawn of every held-out question at every point.
    """

    training: Sequence[Task]
    held_out: Sequence[Task]
    reward: Callable[[str, str], float] = reward
    hard: Sequence[str] = HARD
    most_tokens: int = MOST_TOKENS
    samples: int = SAMPLES

    @classmethod
    def unnamed(cls, seed: int) -> Questions:
        """Draw the split with this seed for the questions that do not say what to do."""
        return cls(*split(seed))
