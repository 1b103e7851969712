"""Training questions and ground truths must not stand in a candidate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.candidates.known_questions import SHORTEST_TRUTH, KnownQuestions
from prompt_coevo.candidates.normal_words import normal_line, readings
from prompt_coevo.candidates.word_hashes import hash_words
from prompt_coevo.placement import question_text
from prompt_coevo.settings.gates import GateSettings
from prompt_coevo.types import Question


class LeakGuard:
    """Finds training questions and ground truths in a candidate.

    Texts are compared in normal form (`normal_words.py`): case, spaces, punctuation, accents, width and
    look-alikes do not count, and a candidate is also read backwards and where it is base64. It leaks if

    - it shares `ngram` consecutive words with a question; a question of fewer words, but at least four,
      is looked for as a whole;
    - it holds a ground truth of at least `min_truth_chars` letters and digits, anywhere;
    - it holds a shorter ground truth as whole words, together with half of the words that tell its
      question from others: the eight longest, common words aside. "Hamlet: Shakespeare" gives an answer
      away, "write as Shakespeare did" does not. A number needs two such words, because numbers stand in
      texts by chance; a truth of one or two characters or a common word is not looked for, because it
      would reject everything.

    A truth that comes without its question is looked for only if it is long.
    """

    def __init__(
        self,
        questions: Iterable[str] = (),
        ground_truths: Iterable[str] = (),
        *,
        ngram: int = 8,
        min_truth_chars: int = 12,
    ) -> None:
        self._known = KnownQuestions(ngram, min_truth_chars)
        self._known.add(zip_longest(questions, ground_truths, fillvalue=""))
        self._asked: NDArray[np.bool_] = np.ones(self._known.count, dtype=bool)

    @classmethod
    def among(cls, known: KnownQuestions, asked: NDArray[np.bool_]) -> LeakGuard:
        """A guard of some of the known questions: those whose number is true in `asked`."""
        guard = cls.__new__(cls)
        guard._known, guard._asked = known, asked
        return guard

    def find(self, text: str, allowed: str = "") -> str | None:
        """What the text leaks, in words, or None. What stands in `allowed` is no leak."""
        texts, own = _Read.all_of(text), _Read.all_of(allowed)
        return self._copied(texts, own) or self._answered(texts, own)

    def _copied(self, texts: Sequence[_Read], own: Sequence[_Read]) -> str | None:
        known = self._known
        for length in sorted(known.gram_lengths, reverse=True):
            fine = np.concatenate([known.grams(one.hashes, length) for one in own])
            for one in texts:
                grams = known.grams(one.hashes, length)
                new = np.flatnonzero(~np.isin(grams, fine))
                found = known.find_grams(grams[new])
                if places := [place for place, owners in found if self._asks(owners)]:
                    first = int(new[min(places)])
                    gram = " ".join(one.words[first : first + length])
                    return f"it copies {length} words of a training question: {gram!r}"
        return None

    def _answered(self, texts: Sequence[_Read], own: Sequence[_Read]) -> str | None:
        allowed = ["".join(one.words) for one in own]
        for one in texts:
            for truth, owner in self._known.find_long("".join(one.words)):
                if self._asks(np.array([owner])) and not any(truth in text for text in allowed):
                    return "it contains the ground truth of a training question"
        fine = {run for one in own for run in self._short_runs(one.words)}
        runs = dict.fromkeys(run for one in texts for run in self._short_runs(one.words))
        words = np.concatenate([one.hashes for one in texts])
        found = self._known.find_short([run for run in runs if run not in fine], words)
        if any(self._asks(owners) for owners in found):
            return "it contains the ground truth of a training question, with words of the question"
        return None

    def _short_runs(self, words: Sequence[str]) -> Iterator[str]:
        """All runs of whole words that are as short as a short truth, without what separates them."""
        for first in range(len(words)):
            run = ""
            for word in words[first : first + self._known.min_truth_chars]:
                run += word
                if len(run) >= self._known.min_truth_chars:
                    break
                if len(run) >= SHORTEST_TRUTH:
                    yield run

    def _asks(self, owners: NDArray[np.integer[Any]]) -> bool:
        """Whether one of these questions is among those of this guard."""
        return bool(self._asked[owners[owners < len(self._asked)]].any())


@dataclass(frozen=True)
class _Read:
    """One reading of a text."""

    words: Sequence[str]
    hashes: NDArray[np.uint64]

    @classmethod
    def all_of(cls, text: str) -> list[_Read]:
        lines = [normal_line(reading) for reading in readings(text)]
        return [cls(line.decode().split(), hash_words([line]).hashes) for line in lines]


class LeakGuards:
    """Guards for one search after the other: a question is read once, whatever search it comes in."""

    def __init__(self, gates: GateSettings) -> None:
        self._known = KnownQuestions(gates.leak_ngram, gates.leak_truth_chars)
        self._numbers: dict[str, int] = {}

    def guard(self, questions: Iterable[Question]) -> LeakGuard:
        """A guard that knows these questions, and no others. A question's id stands for its text."""
        asked = list(questions)
        new = {question.id: question for question in asked if question.id not in self._numbers}
        self._numbers.update(zip(new, count(self._known.count)))
        self._known.add(
            (question_text(question.prompt), question.ground_truth or "")
            for question in new.values()
        )
        among: NDArray[np.bool_] = np.zeros(self._known.count, dtype=bool)
        among[[self._numbers[question.id] for question in asked]] = True
        return LeakGuard.among(self._known, among)


def leak_guard(questions: Iterable[Question], gates: GateSettings) -> LeakGuard:
    """A guard that knows these questions, for one time."""
    known = list(questions)
    return LeakGuard(
        [question_text(question.prompt) for question in known],
        [question.ground_truth or "" for question in known],
        ngram=gates.leak_ngram,
        min_truth_chars=gates.leak_truth_chars,
    )
