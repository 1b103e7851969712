"""A reflection teacher: a function from prompt text to reply text, as a remote model is.

It reads the failures and correct answers out of the real reflection prompt, works out which skills
explain them, and answers in the real tags. It knows what the skills do and never which word means
which. It stands where a litellm model stands.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

from prompt_coevo.demo.world import FILLERS, SKILL_NAMES, SKILLS, WORDS, Digits
from prompt_coevo.rng import counter_rng

TeacherKind: TypeAlias = Literal["reasoning", "random", "filler"]
Pair: TypeAlias = tuple[str, str]

_FAILURE = re.compile(
    r"<failure_\d+>\s*<question>(.*?)</question>\s*<response>(.*?)</response>.*?"
    r"<correct_answer>(.*?)</correct_answer>",
    re.DOTALL,
)
_QUESTION = re.compile(r"use (\S+) then (\S+) on ([\d ]+)")
_TEMPLATE = re.compile(r"<current_template>(.*?)</current_template>", re.DOTALL)
CLAUSE = re.compile(r"(\S+) means (\S+) \.")
"""A rule in a template or an instruction: word, skill."""


@dataclass(frozen=True)
class Failure:
    """A failed trajectory as it stands in a prompt; `used` are the skills that the response named."""

    words: Pair
    digits: Digits
    answer: Digits
    used: tuple[str | None, str | None]

    @property
    def explanations(self) -> list[Pair]:
        """All pairs of skills that lead from the list to the answer."""
        return [
            (first, second)
            for first in SKILL_NAMES
            for second in SKILL_NAMES
            if SKILLS[second](SKILLS[first](self.digits)) == self.answer
        ]


class Teacher:
    """Call it with a reflection prompt.

    `reasoning` explains up to `explained` failures per call, by a vote over all of them, and errs at
    random with probability `error`. `random` guesses what the words mean. `filler` answers with words
    that cannot help: a weak control, because a search accepts almost none of them. The reply is a
    function of the prompt and the seed.
    """

    def __init__(
        self,
        kind: TeacherKind = "reasoning",
        *,
        seed: int = 0,
        error: float = 0.3,
        explained: int = 2,
        max_clauses: int = 2,
    ) -> None:
        self._kind = kind
        self._seed = seed
        self._error = error
        self._explained = explained
        self._max_clauses = max_clauses

    def __call__(self, prompt: str) -> str:
        rng = self.rng_of(prompt)
        if self._kind == "filler":
            return _answer(" ".join(rng.choices(FILLERS, k=rng.randint(2, 8))))
        clauses = self.improve(_clauses_of(prompt), read_failures(prompt), rng)
        order = rng.sample(list(clauses), len(clauses))
        return _answer(" ".join(f"{word} means {clauses[word]} ." for word in order))

    def rng_of(self, prompt: str) -> random.Random:
        """The prompt fixes the draws, so that replies do not depend on the order of concurrent calls."""
        draw = counter_rng(self._seed, "demo/teacher", prompt).integers(1 << 62)
        return random.Random(int(draw))

    def improve(
        self, rules: dict[str, str], failures: list[Failure], rng: random.Random
    ) -> dict[str, str]:
        """The rules with what a few of the failures teach, not more than fit."""
        clauses = dict(rules)
        for failure in rng.sample(failures, min(self._explained, len(failures))):
            skills = self._explain(failure, failures, rng)
            for word, used, skill in zip(failure.words, failure.used, skills, strict=True):
                if used != skill:  # the response got the other word right already
                    clauses.pop(word, None)
                    clauses[word] = skill
        while len(clauses) > self._max_clauses:  # too long: forget a rule, more often the oldest
            oldest = rng.random() < 0.7
            clauses.pop(next(iter(clauses)) if oldest else rng.choice(list(clauses)))
        return clauses

    def _explain(self, failure: Failure, failures: list[Failure], rng: random.Random) -> Pair:
        possible = failure.explanations
        if self._kind == "random" or not possible or rng.random() < self._error:
            return rng.choice(SKILL_NAMES), rng.choice(SKILL_NAMES)
        votes: Counter[tuple[str, str]] = Counter()
        for other in failures:
            found = other.explanations
            for pair in found:
                for word, skill in zip(other.words, pair, strict=True):
                    votes[word, skill] += 1 / len(found)  # type: ignore[assignment]
        return max(
            possible,
            key=lambda pair: (
                sum(votes[word, skill] for word, skill in zip(failure.words, pair, strict=True))
                + 1e-3 * rng.random()
            ),
        )


def _answer(template: str) -> str:
    return f"The model does not know what some of the words mean.\n\n<template>\n{template}\n</template>"


def _clauses_of(prompt: str) -> dict[str, str]:
    found = _TEMPLATE.search(prompt)
    return dict(CLAUSE.findall(found[1])) if found else {}


def read_failures(prompt: str) -> list[Failure]:
    """The failures that a reflection prompt shows, as far as they are questions of this world."""
    return [failure for match in _FAILURE.finditer(prompt) if (failure := _read(match))]


def _read(match: re.Match[str]) -> Failure | None:
    question = _QUESTION.search(match[1])
    if question is None:
        return None
    response, digits = match[2].split(), _digits(question[3])
    half = len(digits) + 2
    used = tuple(
        response[place] if place < len(response) and response[place] in SKILLS else None
        for place in (1, half + 1)
    )
    words = (question[1], question[2])
    if not set(words) <= set(WORDS):
        return None
    return Failure(words, digits, _digits(match[3]), (used[0], used[1]))


def _digits(text: str) -> Digits:
    return tuple(int(token) for token in text.split() if token.isdecimal())
