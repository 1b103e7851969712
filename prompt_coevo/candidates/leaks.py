"""Refuse candidates that contain training questions or ground truths, unless many questions share them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.candidates.known_questions import SHORTEST_TRUTH, KnownQuestions
from prompt_coevo.candidates.normal_words import Words, normal_line, readings
from prompt_coevo.placement import question_text
from prompt_coevo.policy import Policy
from prompt_coevo.settings.gates import GateSettings
from prompt_coevo.types import Question

_SAMPLE: Final = 512
_FEWEST: Final = 3
_SHARE: Final = 0.05


class LeakGuard:
    """Find training questions and ground truths in a candidate.

    Texts are compared in normal form (`normal_words.py`): case, spaces, punctuation, accents, width and
    look-alikes are ignored, and a candidate is also read backwards and base64-decoded. It leaks if

    - it shares `ngram` consecutive words with a question; a question of fewer words, but at least four, is
      looked for as a whole;
    - it holds a ground truth of at least `min_truth_chars` letters and digits, anywhere;
    - it holds a shorter ground truth as whole words, together with half of the words that identify its
      question: the eight longest, except common words. "Hamlet: Shakespeare" gives an answer away, "write
      as Shakespeare did" does not. A number needs two such words, because numbers occur by chance. A truth
      of one or two characters, or that is a common word, is not looked for, because it would reject
      everything.

    A truth that comes without its question is only looked for if it is long.
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
        """Create a guard for some of the known questions: those whose number is true in `asked`."""
        guard = cls.__new__(cls)
        guard._known, guard._asked = known, asked
        return guard

    def find(self, text: str, allowed: str = "") -> str | None:
        """Say what the text leaks, or return None. Text that is also in `allowed` is no leak."""
        texts = [normal_line(reading) for reading in readings(text)]
        own = [normal_line(reading) for reading in readings(allowed)]
        return self._copied(texts, own) or self._answered(texts, own)

    def _copied(self, texts: Sequence[bytes], own: Sequence[bytes]) -> str | None:
        known, read, fine = (
            self._known,
            [Words([one]) for one in texts],
            [Words([one]) for one in own],
        )
        for length in sorted(known.gram_lengths, reverse=True):
            allowed = np.concatenate([one.runs(length) for one in fine])
            for line, words in zip(texts, read, strict=True):
                grams = words.runs(length)
                new = np.flatnonzero(~np.isin(grams, allowed))
                found = known.find_grams(grams[new])
                if places := [place for place, owners in found if self._asks(owners)]:
                    first = int(new[min(places)])
                    gram = " ".join(line.decode().split()[first : first + length])
                    return f"it copies {length} words of a training question: {gram!r}"
        return None

    def _answered(self, texts: Sequence[bytes], own: Sequence[bytes]) -> str | None:
        read, fine = ([line.decode().split() for line in lines] for lines in (texts, own))
        allowed = ["".join(words) for words in fine]
        for words in read:
            for truth, owner in self._known.find_long("".join(words)):
                if self._asks(np.array([owner])) and not any(truth in text for text in allowed):
                    return "it contains the ground truth of a training question"
        allowed_runs = {run for words in fine for run in self._short_runs(words)}
        runs = dict.fromkeys(run for words in read for run in self._short_runs(words))
        found = self._known.find_short(
            [run for run in runs if run not in allowed_runs], Words(texts).hashes
        )
        if any(self._asks(owners) for owners in found):
            return "it contains the ground truth of a training question, with words of the question"
        return None

    def _short_runs(self, words: Sequence[str]) -> Iterator[str]:
        """Yield all runs of whole words, joined, that are short enough for a short truth."""
        for first in range(len(words)):
            run = ""
            for word in words[first : first + self._known.min_truth_chars]:
                run += word
                if len(run) >= self._known.min_truth_chars:
                    break
                if len(run) >= SHORTEST_TRUTH:
                    yield run

    def _asks(self, owners: NDArray[np.integer]) -> bool:
        """Return True if one of these questions belongs to this guard."""
        return bool(self._asked[owners[owners < len(self._asked)]].any())


class LeakGuards:
    """Create guards for consecutive searches. A question is read once, however many searches it is in."""

    def __init__(self, gates: GateSettings) -> None:
        self._known = KnownQuestions(gates.leak_ngram, gates.leak_truth_chars)
        self._numbers: dict[str, int] = {}

    def guard(self, questions: Iterable[Question]) -> LeakGuard:
        """Create a guard for these questions only. The id of a question stands for its text."""
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
    """Create a guard for these questions, for one use."""
    known = list(questions)
    return LeakGuard(
        [question_text(question.prompt) for question in known],
        [question.ground_truth or "" for question in known],
        ngram=gates.leak_ngram,
        min_truth_chars=gates.leak_truth_chars,
    )


def some_questions(policy: Policy) -> list[Question]:
    """Return up to 512 questions, the same ones whatever the order of the dataset."""
    ids = sorted(policy.question_ids())
    return [policy.question(one) for one in ids[:: -(-len(ids) // _SAMPLE) or 1]]


def shared_text(questions: Sequence[Question], ngram: int) -> str:
    """Return the text that many questions share, in normal form, one item per line.

    Items are runs of at least `ngram` words, and ground truths, that occur in at least 5 % of the questions
    and in no fewer than three: answer formats, preambles, labels to choose from. They reveal nothing about
    a single question, so a candidate may contain them.
    """
    least = max(_FEWEST, _SHARE * len(questions))
    texts = [normal_line(question_text(one.prompt)).decode().split() for one in questions]
    grams = Counter(gram for words in texts for gram in set(_grams(words, ngram)))
    common = {gram for gram, count in grams.items() if count >= least}
    lines = {run: None for words in texts for run in _runs(words, ngram, common)}
    truths = Counter(normal_line(one.ground_truth or "").decode() for one in questions)
    lines.update((truth, None) for truth, count in truths.items() if count >= least)
    return "\n".join(lines)


def _grams(words: Sequence[str], ngram: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[place:] for place in range(ngram)), strict=False)


def _runs(words: Sequence[str], ngram: int, common: set[tuple[str, ...]]) -> Iterator[str]:
    """Yield the longest runs of words whose n-grams are all common."""
    first = None
    for place, gram in enumerate([*_grams(words, ngram), ()]):
        if gram in common:
            first = place if first is None else first
        elif first is not None:
            yield " ".join(words[first : place - 1 + ngram])
            first = None
