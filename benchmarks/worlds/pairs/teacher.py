"""Act as the demo world's reflection teacher, which explains both words of a question."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from prompt_coevo.demo.digits import SKILL_NAMES, SKILLS, Digits
from prompt_coevo.demo.rule_teacher import (
    Chain,
    RuleTeacher,
    digits_in,
    explanations,
    shown_failures,
)
from worlds.pairs.world import WORDS

_QUESTION = re.compile(r"use (\S+) then (\S+) on ([\d ]+)")
CLAUSE = re.compile(r"(\S+) means (\S+) \.")
"""A rule in a template or an instruction: word, skill."""


@dataclass(frozen=True)
class Failure:
    """A failed trajectory as shown in a prompt; `used` are the skills that the response named."""

    words: tuple[str, str]
    digits: Digits
    answer: Digits
    used: tuple[str | None, str | None]

    @property
    def explanations(self) -> list[Chain]:
        return explanations(self.digits, self.answer)


class Teacher(RuleTeacher[Failure, str]):
    """A teacher whose rule for a word is its skill."""

    most_clauses = 2

    def rules_in(self, template: str) -> dict[str, str]:
        return dict(CLAUSE.findall(template))

    def failures_in(self, prompt: str) -> list[Failure]:
        return read_failures(prompt)

    def votes(self, failure: Failure, failures: Sequence[Failure]) -> Callable[[Chain], float]:
        votes: Counter[tuple[str, str]] = Counter()
        for other in failures:
            found = other.explanations
            for pair in found:
                for word, skill in zip(other.words, pair, strict=True):
                    votes[word, skill] += 1 / len(found)  # type: ignore[assignment]
        return lambda pair: sum(
            votes[word, skill] for word, skill in zip(failure.words, pair, strict=True)
        )

    def learnt(self, failure: Failure, explanation: Chain) -> Mapping[str, str]:
        """Return the skills of the words that the response got wrong.

        A word that occurs twice in a question has the second skill, if that is new.
        """
        told = zip(failure.words, failure.used, explanation, strict=True)
        return {word: skill for word, used, skill in told if used != skill}

    def clause(self, word: str, rule: str) -> str:
        return f"{word} means {rule} ."

    def invented(self, rng: random.Random) -> tuple[str, str]:
        return rng.choice(WORDS), rng.choice(SKILL_NAMES)


def read_failures(prompt: str) -> list[Failure]:
    """Return the failures in a reflection prompt that are questions of this world."""
    read = (_read(*shown) for shown in shown_failures(prompt))
    return [failure for failure in read if failure]


def _read(question: str, response: str, answer: str) -> Failure | None:
    match = _QUESTION.search(question)
    if match is None or not {match[1], match[2]} <= set(WORDS):
        return None
    tokens, digits = response.split(), digits_in(match[3])
    half = len(digits) + 2
    used = tuple(
        tokens[place] if place < len(tokens) and tokens[place] in SKILLS else None
        for place in (1, half + 1)
    )
    return Failure((match[1], match[2]), digits, digits_in(answer), (used[0], used[1]))
