"""Keep templates from the questions that they give away."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.algorithms.stream.library import Template
from prompt_coevo.candidates.known_questions import FEWEST_WORDS, SHORTEST_TRUTH
from prompt_coevo.candidates.leaks import leak_guard, shared_text, some_questions
from prompt_coevo.candidates.normal_words import Words, normal_line, readings
from prompt_coevo.placement import question_text
from prompt_coevo.policy import Policy
from prompt_coevo.settings.gates import GateSettings

_TEMPLATES: Final = 512
_QUESTIONS: Final = 2_048
_PAIRS: Final = 65_536
"""Cached results. Questions meet the same templates again and again."""


class _Asked(NamedTuple):
    """A question's runs of `length` words, none of which a template may hold, and its answer's letters."""

    length: int
    runs: NDArray[np.uint64]
    truth: str


class Giveaways:
    """Look for a question and its answer in templates.

    The gates looked for the questions that a template's proposer saw; it may be tried on others, too. Most
    pairs are passed by comparing words in a row and the answer's letters; `LeakGuard` decides on the rest.
    """

    def __init__(self, policy: Policy, settings: GateSettings) -> None:
        self._policy, self._settings = policy, settings
        self._least = min(SHORTEST_TRUTH, settings.leak_truth_chars)
        self._runs = lru_cache(_TEMPLATES)(self._runs_of_template)
        self._letters = lru_cache(_TEMPLATES)(self._letters_of_template)
        self._asked = lru_cache(_QUESTIONS)(self._read_question)
        self._found = lru_cache(_PAIRS)(self._gives_away)

    def fit(self, templates: Iterable[Template], question_id: str) -> list[Template]:
        """Return the templates without those that give the question away; all if the gate `text` is off."""
        if "text" not in self._settings.active:
            return list(templates)
        return [one for one in templates if not self._found(one.candidate.text, question_id)]

    def _gives_away(self, text: str, question_id: str) -> bool:
        asked = self._asked(question_id)
        copied = asked.length and not self._runs(text, asked.length).isdisjoint(asked.runs.tolist())
        if not copied:
            answered = len(asked.truth) >= self._least
            if not answered or not any(asked.truth in line for line in self._letters(text)):
                return False
        guard = leak_guard([self._policy.question(question_id)], self._settings)
        return guard.find(text) is not None and guard.find(text, self._shared) is not None

    @cached_property
    def _shared(self) -> str:
        return shared_text(some_questions(self._policy), self._settings.leak_ngram)

    def _read_question(self, question_id: str) -> _Asked:
        question = self._policy.question(question_id)
        words = Words([normal_line(question_text(question.prompt))])
        ngram, count = self._settings.leak_ngram, len(words.hashes)
        length = min(ngram, count) if count >= min(FEWEST_WORDS, ngram) else 0
        return _Asked(length, words.runs(length), _letters(question.ground_truth or ""))

    @staticmethod
    def _runs_of_template(text: str, length: int) -> frozenset[int]:
        lines = map(normal_line, readings(text))
        return frozenset(run for line in lines for run in Words([line]).runs(length).tolist())

    @staticmethod
    def _letters_of_template(text: str) -> list[str]:
        return [_letters(reading) for reading in readings(text)]


def _letters(text: str) -> str:
    return normal_line(text).replace(b" ", b"").decode()
