"""Keep templates from the questions that they give away."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Final

from prompt_coevo.algorithms.stream.library import Template
from prompt_coevo.candidates.known_questions import FEWEST_WORDS, SHORTEST_TRUTH
from prompt_coevo.candidates.leaks import leak_guard, shared_text, some_questions
from prompt_coevo.candidates.normal_words import Words, normal_line, readings
from prompt_coevo.placement import question_text
from prompt_coevo.policy import Policy
from prompt_coevo.settings.gates import GateSettings

_TEXTS: Final = 16_384
_PAIRS: Final = 65_536


class Giveaways:
    """Look for a question and its answer in the templates drawn for it.

    The gates looked for the questions that the proposer saw; a template is tried on others, too. Nearly
    every pair is passed by comparing sets: no leak is without four words in a row, or the answer's letters.
    """

    def __init__(self, policy: Policy, settings: GateSettings) -> None:
        self._policy, self._settings = policy, settings
        self._gram = min(FEWEST_WORDS, settings.leak_ngram)
        self._read = lru_cache(_TEXTS)(self._read_text)
        self._asked = lru_cache(_TEXTS)(self._read_question)
        self._leaks = lru_cache(_PAIRS)(self._leaks_here)

    def withheld(self, drawn: Iterable[Template | None], question_id: str) -> list[Template | None]:
        """Return what was drawn, with None in place of a template that gives the question away."""
        return [
            None if one is None or self._gives_away(one.candidate.text, question_id) else one
            for one in drawn
        ]

    def _gives_away(self, text: str, question_id: str) -> bool:
        (grams, letters), (asked, truth) = self._read(text), self._asked(question_id)
        answered = len(truth) >= SHORTEST_TRUTH and any(truth in line for line in letters)
        return (answered or not grams.isdisjoint(asked)) and self._leaks(text, question_id)

    def _leaks_here(self, text: str, question_id: str) -> bool:
        guard = leak_guard([self._policy.question(question_id)], self._settings)
        return guard.find(text, self._shared) is not None

    @cached_property
    def _shared(self) -> str:
        return shared_text(some_questions(self._policy), self._settings.leak_ngram)

    def _read_text(self, text: str) -> tuple[frozenset[int], list[str]]:
        lines = [normal_line(reading) for reading in readings(text)]
        return self._grams(lines), [_letters(line) for line in lines]

    def _read_question(self, question_id: str) -> tuple[frozenset[int], str]:
        question = self._policy.question(question_id)
        grams = self._grams([normal_line(question_text(question.prompt))])
        return grams, _letters(normal_line(question.ground_truth or ""))

    def _grams(self, lines: Iterable[bytes]) -> frozenset[int]:
        return frozenset(gram for line in lines for gram in Words([line]).runs(self._gram).tolist())


def _letters(line: bytes) -> str:
    return line.replace(b" ", b"").decode()
