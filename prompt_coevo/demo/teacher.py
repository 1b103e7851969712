"""The built-in reflection model: it explains all of a word's skills at once."""

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
from prompt_coevo.demo.world import USUAL, Meaning, Size, apply, clause

RULES: Final = 10
"""So many fit into an instruction."""


def clause_pattern(size: Size) -> re.Pattern[str]:
    """A rule in a template: word, first skill, second skill, and so on."""
    first, *others = size.markers
    return re.compile(
        rf"(\S+) {first} (\S+)" + "".join(rf" \1 {marker} (\S+)" for marker in others) + r" \."
    )


CLAUSE: Final = clause_pattern(USUAL)
_QUESTION: Final = re.compile(r"use (\S+) on ([\d ]+)")


@dataclass(frozen=True)
class Failure:
    """A failed trajectory as it stands in a prompt."""

    word: str
    digits: Digits
    answer: Digits
    skills: int = USUAL.skills

    @property
    def explanations(self) -> list[Meaning]:
        return explanations(self.digits, self.answer, self.skills)


class FactsTeacher(RuleTeacher[Failure, Meaning]):
    """The rule of a word is its meaning. A template has four rules at most."""

    most_clauses = 4
    most_fillers = 2

    size: Size = USUAL
    """That of the world; set another one for another world."""

    @property
    def skills(self) -> int:
        return self.size.skills

    def rules_in(self, template: str) -> dict[str, Meaning]:
        found = clause_pattern(self.size).findall(template)
        return {word: tuple(skills) for word, *skills in found}

    def failures_in(self, prompt: str) -> list[Failure]:
        failures = []
        for question, _, answer in shown_failures(prompt):
            match = _QUESTION.search(question)
            if match and match[1] in self.size.words:
                failures.append(
                    Failure(match[1], digits_in(match[2]), digits_in(answer), self.skills)
                )
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
        word = rng.choice(self.size.words)
        return word, tuple(rng.choice(SKILL_NAMES) for _ in range(self.skills))


def teacher(
    kind: TeacherKind = "reasoning", *, seed: int = 0, error: float = ERROR
) -> Callable[[str], str]:
    """Make a function that answers reflection prompts, for templates and for instructions."""
    for_templates = FactsTeacher(kind, seed=seed, error=error)
    for_instructions = InstructionTeacher(
        FactsTeacher(kind, seed=seed, error=error, max_clauses=RULES)
    )
    return lambda prompt: (
        for_templates(prompt) if "<current_template>" in prompt else for_instructions(prompt)
    )
