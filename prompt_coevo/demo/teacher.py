"""The built-in reflection model: it explains both skills of a word at once."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prompt_coevo.demo.digits import SKILL_NAMES, Digits
from prompt_coevo.demo.instruction_teacher import InstructionTeacher
from prompt_coevo.demo.rule_teacher import (
    ERROR,
    RuleTeacher,
    TeacherKind,
    digits_in,
    explanations,
    shown_failures,
)
from prompt_coevo.demo.world import WORDS, Meaning, apply, clause

RULES: Final = 10
"""Most rules in an instruction."""


CLAUSE: Final = re.compile(r"(\S+) first (\S+) \1 then (\S+) \.")
"""A rule in a template: word, first skill, second skill."""
_QUESTION: Final = re.compile(r"use (\S+) on ([\d ]+)")


@dataclass(frozen=True)
class Failure:
    """A failed trajectory as it is shown in a prompt."""

    word: str
    digits: Digits
    answer: Digits

    @property
    def explanations(self) -> list[Meaning]:
        return explanations(self.digits, self.answer)


class FactsTeacher(RuleTeacher[Failure, Meaning]):
    """The teacher whose rule for a word is the word's meaning. A template has at most four rules."""

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

    def votes(self, failure: Failure, failures: Sequence[Failure]) -> Callable[[Meaning], float]:
        same = [other for other in failures if other.word == failure.word]
        votes = Counter(
            meaning
            for meaning in failure.explanations
            for other in same
            if apply(meaning, other.digits) == other.answer
        )
        return lambda meaning: votes[meaning]

    def learnt(self, failure: Failure, explanation: Meaning) -> Mapping[str, Meaning]:
        return {failure.word: explanation}

    def clause(self, word: str, rule: Meaning) -> str:
        return clause(word, rule)

    def invented(self, rng: random.Random) -> tuple[str, Meaning]:
        return rng.choice(WORDS), (rng.choice(SKILL_NAMES), rng.choice(SKILL_NAMES))


def teacher(
    kind: TeacherKind = "reasoning", *, seed: int = 0, error: float = ERROR
) -> Callable[[str], str]:
    """Build a function that answers reflection prompts, for templates and for instructions."""
    for_templates = FactsTeacher(kind, seed=seed, error=error)
    for_instructions = InstructionTeacher(
        FactsTeacher(kind, seed=seed, error=error, max_clauses=RULES)
    )
    return lambda prompt: (
        for_templates(prompt) if "<current_template>" in prompt else for_instructions(prompt)
    )
