"""Provide hints for the world of facts with a tabular policy, and what a search found there."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from outside import Writer

from prompt_coevo import hookimpl
from prompt_coevo.candidates.searches import SearchResult, TemplatesInUse
from prompt_coevo.types import Question, Rollout

_WORD: Final = re.compile(r"w(\d+)")


def true_hints(question: Question, round: int, count: int) -> list[str]:
    """Return the meanings of all words of the question, from its answer."""
    meanings = map(int, str(question.ground_truth).split("-"))
    return [_explained(words_in(question), meanings)] * count


def random_hints(seed: int, meanings: int) -> Writer:
    """Return random meanings of all words of the question, drawn anew for every rollout."""

    def write(question: Question, round: int, count: int) -> list[str]:
        rng = random.Random(f"{seed}|{question.id}|{round}")
        words = words_in(question)
        return [_explained(words, [rng.randrange(meanings) for _ in words]) for _ in range(count)]

    return write


def words_in(question: Question) -> list[int]:
    return [int(word) for word in _WORD.findall(str(question.prompt))]


def _explained(words: Sequence[int], meanings: Any) -> str:
    told = dict(zip(words, meanings, strict=True))
    return " ".join(f"w{word} means s{meaning} ." for word, meaning in told.items())


class Tally:
    """Count how often every template solved questions with every word, in all rollouts under it."""

    def __init__(self, words: int) -> None:
        empty = lambda: np.zeros((2, words))  # noqa: E731
        self._counts: defaultdict[str, NDArray[Any]] = defaultdict(empty)

    def count(self, rollout: Rollout, words: Sequence[int]) -> None:
        template = rollout.assignment.template
        if template is not None and template.text:
            counts = self._counts[template.text]
            for word in set(words):
                counts[0, word] += 1
                counts[1, word] += rollout.reward

    def chances(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return log estimated successes, a row per template and a column per word; never tried: ½."""
        counts = np.array([self._counts[text] for text in texts])
        chances: NDArray[Any] = np.log((counts[:, 1] + 1) / (counts[:, 0] + 2))
        return chances


class Found:
    """Hold the templates that a search found, and estimate which one solves a question."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self.texts: list[str] = []
        self._chances: NDArray[Any] = np.zeros((0, 0))

    @hookimpl
    def coevo_after_templates_assigned(
        self, cover: TemplatesInUse | None, result: SearchResult | None
    ) -> None:
        if result is not None:
            texts = [one.text for one in result.pool.candidates if one.text]
            self.texts = list(dict.fromkeys([*self.texts, *texts]))

    def close(self) -> None:
        """End the search."""
        if self.texts:
            self._chances = self._tally.chances(self.texts)

    def best(self, words: Sequence[int], count: int) -> list[str]:
        """Return the templates with most success on training questions with these words, best first."""
        if not self.texts:
            return []
        ranked = np.argsort(-self._chances[:, sorted(set(words))].sum(axis=1), kind="stable")
        return [self.texts[ranked[place % len(ranked)]] for place in range(count)]

    def write(self, question: Question, round: int, count: int) -> list[str]:
        return self.best(words_in(question), count) or [""] * count
