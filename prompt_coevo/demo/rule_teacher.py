"""Base of the reflection teachers for worlds with hidden skills: functions from prompt to reply.

A teacher reads failures and right answers out of the real reflection prompt, works out which skills explain
them, and answers in the real tags. It knows the skills but not what any word means. It takes the place of a
litellm model.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import ClassVar, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from prompt_coevo.demo.digits import FILLERS, SKILL_NAMES, SKILLS, Digits
from prompt_coevo.rng import counter_rng

TeacherKind: TypeAlias = Literal["reasoning", "random", "filler"]
ERROR: Final = 0.3
"""Default probability that a teacher errs."""
Chain: TypeAlias = tuple[str, str]
"""Two skills, applied one after the other."""

_FAILURE: Final = re.compile(
    r"<failure_\d+>\s*<question>(.*?)</question>\s*<response>(.*?)</response>.*?"
    r"<correct_answer>(.*?)</correct_answer>",
    re.DOTALL,
)
_TEMPLATE: Final = re.compile(r"<current_template>(.*?)</current_template>", re.DOTALL)


class Explicable(Protocol):
    """A failed trajectory as it is shown in a prompt."""

    @property
    def explanations(self) -> list[Chain]:
        """Return all chains of skills that lead from the list to the answer."""


FailureT = TypeVar("FailureT", bound=Explicable)
Rule = TypeVar("Rule")


class RuleTeacher(ABC, Generic[FailureT, Rule]):
    """Call it with a reflection prompt. Each world defines how to write a rule for a word.

    `reasoning` explains up to two failures per call, by a vote over all of them, and errs at random with
    probability `error`. `random` guesses what the words mean. `filler` answers with words that cannot
    help: a weak control, because a search accepts almost none of them. The reply is a function of the
    prompt and the seed.
    """

    most_clauses: ClassVar[int]
    """Default number of rules in a template."""
    most_fillers: ClassVar[int] = 0
    """Most filler words in a template; with them, no two replies need be alike."""

    def __init__(
        self,
        kind: TeacherKind = "reasoning",
        *,
        seed: int = 0,
        error: float = ERROR,
        max_clauses: int | None = None,
    ) -> None:
        self._kind = kind
        self._seed = seed
        self._error = error
        self.max_clauses = self.most_clauses if max_clauses is None else max_clauses

    def __call__(self, prompt: str) -> str:
        rng = self.rng_of(prompt)
        if self._kind == "filler":
            return _answer(" ".join(rng.choices(FILLERS, k=rng.randint(2, 8))))
        found = _TEMPLATE.search(prompt)
        rules = self.rules_in(found[1]) if found else {}
        rules = self.improve(rules, self.failures_in(prompt), rng)
        return _answer(self.spelled(rules, rng))

    @abstractmethod
    def rules_in(self, template: str) -> dict[str, Rule]:
        """Return what a template says about each word."""

    @abstractmethod
    def failures_in(self, prompt: str) -> list[FailureT]:
        """Return the failures shown in a reflection prompt that are questions of this world."""

    @abstractmethod
    def votes(self, failure: FailureT, failures: Sequence[FailureT]) -> Callable[[Chain], float]:
        """Score how much all failures support a chain of skills that explains this one."""

    @abstractmethod
    def learnt(self, failure: FailureT, explanation: Chain) -> Mapping[str, Rule]:
        """Return the rules that follow from an explanation."""

    @abstractmethod
    def clause(self, word: str, rule: Rule) -> str:
        """Write a rule as it stands in a template."""

    @abstractmethod
    def invented(self, rng: random.Random) -> tuple[str, Rule]:
        """Make up a rule."""

    def spelled(
        self, rules: Mapping[str, Rule], rng: random.Random, most_fillers: int | None = None
    ) -> str:
        """Write the rules in random order, with a few filler words between them."""
        parts = [self.clause(word, rules[word]) for word in rng.sample(list(rules), len(rules))]
        for _ in range(rng.randint(0, self.most_fillers if most_fillers is None else most_fillers)):
            parts.insert(rng.randint(0, len(parts)), rng.choice(FILLERS))
        return " ".join(parts)

    def rng_of(self, prompt: str) -> random.Random:
        """Seed a generator with the prompt, so that replies do not depend on the order of concurrent
        calls."""
        draw = counter_rng(self._seed, "demo/teacher", prompt).integers(1 << 62)
        return random.Random(int(draw))

    def improve(
        self, rules: Mapping[str, Rule], failures: Sequence[FailureT], rng: random.Random
    ) -> dict[str, Rule]:
        """Add to the rules what a few of the failures teach, without exceeding the limit."""
        known = dict(rules)
        for failure in rng.sample(failures, min(2, len(failures))):
            for word, rule in self.learnt(failure, self._explain(failure, failures, rng)).items():
                known.pop(word, None)
                known[word] = rule
        while len(known) > self.max_clauses:  # too long: forget rules, preferably old ones
            oldest = rng.random() < 0.7
            known.pop(next(iter(known)) if oldest else rng.choice(list(known)))
        return known

    def _explain(
        self, failure: FailureT, failures: Sequence[FailureT], rng: random.Random
    ) -> Chain:
        possible = failure.explanations
        if self._kind == "random" or not possible or rng.random() < self._error:
            return rng.choice(SKILL_NAMES), rng.choice(SKILL_NAMES)
        votes = self.votes(failure, failures)
        return max(possible, key=lambda chain: votes(chain) + 1e-3 * rng.random())


def explanations(digits: Digits, answer: Digits) -> list[Chain]:
    """Return all chains of skills that lead from the list to the answer."""
    return [
        (first, second)
        for first, second in product(SKILL_NAMES, SKILL_NAMES)
        if SKILLS[second](SKILLS[first](digits)) == answer
    ]


def shown_failures(prompt: str) -> list[tuple[str, str, str]]:
    """Return question, response and right answer of each failure in a reflection prompt."""
    return _FAILURE.findall(prompt)


def digits_in(text: str) -> Digits:
    return tuple(int(token) for token in text.split() if token.isdecimal())


def _answer(template: str) -> str:
    return f"The model does not know what some of the words mean.\n\n<template>\n{template}\n</template>"
