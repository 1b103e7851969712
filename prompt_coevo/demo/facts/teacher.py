"""The reflection teacher of this world: what it explains is a word's two skills at once."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prompt_coevo.demo.facts.world import WORDS, Meaning, apply, clause
from prompt_coevo.demo.rule_teacher import (
    Pair,
    RuleTeacher,
    digits_in,
    explanations,
    shown_failures,
)
from prompt_coevo.demo.world import SKILL_NAMES, Digits

CLAUSE: Final = re.compile(r"(\S+) first (\S+) \1 then (\S+) \.")
"""A rule in a template: word, first skill, second skill."""
_QUESTION: Final = re.compile(r"use (\S+) on ([\d ]+)")


@dataclass(frozen=True)
class Failure:
    """A failed trajectory as it stands in a prompt."""

    word: str
    digits: Digits
    answer: Digits

    @property
    def explanations(self) -> list[Pair]:
        return explanations(self.digits, self.answer)


class FactsTeacher(RuleTeacher[Failure, Meaning]):
    """The rule of a word is its meaning. A template has four rules at most."""

    most_clauses = 4
    most_fillers = 2

    def rules_in(self, template: str) -> dict[str, Meaning]:
        return {word: (first, second) for word, first, second in CLAUSE.findall(template)}

    def failures_in(self, prompt: str) -> list[Failure]:
        failures = []
        for question, _, answer in shown_failures(prompt):
            match = _QUESTION.search(question)
            if match and match[1] in WORDS:
                failures.append(Failure(match[1], digits_in(match[2]), digits_in(answer)))
        return failures

    def votes(self, failure: Failure, failures: Sequence[Failure]) -> Callable[[Pair], float]:
        same = [other for other in failures if other.word == failure.word]
        votes = Counter(
            pair
            for pair in failure.explanations
            for other in same
            if apply(pair, other.digits) == other.answer
        )
        return lambda pair: votes[pair]

    def learnt(self, failure: Failure, explanation: Pair) -> Mapping[str, Meaning]:
        return {failure.word: explanation}

    def clause(self, word: str, rule: Meaning) -> str:
        return clause(word, rule)

    def invented(self, rng: random.Random) -> tuple[str, Meaning]:
        return rng.choice(WORDS), (rng.choice(SKILL_NAMES), rng.choice(SKILL_NAMES))
