"""Which questions are alike: what solved one of them may solve the others.

The setting `stream.likeness` names a factory: `factory(context, questions) -> Likeness`, which may read the
questions once, in the order of their numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.algorithms.stream.shared_phrases import repetitions
from prompt_coevo.algorithms.stream.tokens import tokens
from prompt_coevo.context import Context
from prompt_coevo.errors import CoevoError, PluginError
from prompt_coevo.placement import question_text
from prompt_coevo.types import Question

_NEAREST: Final = 128
_LEAST: Final = 0.2
"""Less than this is the noise of a few common words."""
_LISTED: Final = 2_000
"""Of a word in more questions than this, the index lists about so many, drawn by the question."""
_LOOKED_AT: Final = 5_000
"""Places in the index that are looked at for one question, those of its rarest words first."""
_LATE: Final = 1_000
"""Late questions that another one is compared with, all of them: those right before it."""
_TRIED: Final = 500
"""Questions for which is tried whether words that come together may count once."""
_CLOSE: Final = 0.6
_OF_A_KIND: Final = 1_000
"""Words that come together count once if most questions that have them are, all the same, this close to at
least a thousandth of the others: more than chance makes close."""
_CACHED: Final = 131_072
"""Answers that a likeness keeps."""


class Alike(NamedTuple):
    """Questions by number, and how much each is like the one that was asked for, in (0, 1]."""

    numbers: NDArray[np.int32]
    weights: NDArray[np.float32]


class Likeness(Protocol):
    """Knows the questions by number: their places in the order that the policy names them in."""

    def near(self, number: int) -> Alike:
        """The question itself, first and with weight 1, and those most like it."""
        ...


@runtime_checkable
class Growing(Likeness, Protocol):
    """Takes late questions in when they come; to another likeness they are like none until all are
    compared anew."""

    def join(self, questions: Iterable[Question]) -> None:
        """The questions that follow. What is near one must not depend on how many came at once."""
        ...


LikenessFactory: TypeAlias = Callable[[Context, Iterable[Question]], Likeness]


def built(factory: LikenessFactory, context: Context, questions: Iterable[Question]) -> Likeness:
    """What a factory makes of the questions. Raises PluginError if it raises another error than ours."""
    try:
        return factory(context, questions)
    except CoevoError:
        raise
    except Exception as error:
        name = context.settings.section(StreamSettings).likeness
        raise PluginError(
            f"stream.likeness = {name!r} cannot be made: {type(error).__name__}: {error}; mend it, or "
            "choose another one"
        ) from error


def words(context: Context, questions: Iterable[Question]) -> Likeness:
    """By the words that questions share."""
    return Words(question_text(question.prompt) for question in questions)


def none(context: Context, questions: Iterable[Question]) -> Likeness:
    """No question says anything about another one."""
    return Unlike()


class Unlike:
    """No question says anything about another one."""

    def near(self, number: int) -> Alike:
        return alone(number)


class Words:
    """Cosine of tf-idf vectors of the words (`tokens`) that a question shares with others, case aside.

    A word that stands in one question alone, or in all, says nothing. Common words that come together, as
    those of an instruction do, count once, if the questions that hold them are like others without that.
    `texts` are read once; the index takes 4 bytes for each different word of a question, and at most as
    much again. Questions that `join` are like those, and like the 1 000 that joined before them, by the
    weights that words had without them.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        numbers, self._words, self._starts = _read(texts)
        count = len(self._starts) - 1
        self._late_words = np.zeros(0, dtype=np.int32)
        self._late_starts = np.zeros(1, dtype=np.int64)
        frequency = np.bincount(self._words, minlength=1)
        shared = (frequency > 1) & (frequency < count)
        squares = np.zeros(len(frequency), dtype=np.float32)
        squares[shared] = np.log(count / frequency[shared]) ** 2
        once = squares / repetitions(self._words, self._starts, frequency)
        self._weigh(once, frequency)
        if (once < squares).any():
            numerals = np.array([word.isdigit() for word in numbers])
            needed = self._needed(numerals) & (once < squares)
            if needed.any():
                self._weigh(np.where(needed, squares, once), frequency)
        self._numbers = {word: n for word, n in numbers.items() if shared[n]}
        self.near: Callable[[int], Alike] = lru_cache(_CACHED)(self._near)

    def join(self, questions: Iterable[Question]) -> None:
        late: list[list[int]] = []
        for question in questions:
            different = tokens(question_text(question.prompt))
            late.append([self._numbers[word] for word in different if word in self._numbers])
        words = np.fromiter(chain.from_iterable(late), dtype=np.int32)
        ends = self._late_starts[-1] + np.cumsum([len(one) for one in late], dtype=np.int64)
        self._late_words = np.concatenate([self._late_words, words])
        self._late_starts = np.concatenate([self._late_starts, ends])

    def _weigh(self, squares: NDArray[np.float32], frequency: NDArray[np.int64]) -> None:
        self._squares = squares
        self._norms = np.sqrt(self._sums(squares[self._words], self._starts)) + 1e-9
        self._listed, self._list_starts = self._inverted(frequency)

    def _needed(self, numerals: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Words most of whose questions are close to hardly any as the words are weighed now: what looked
        like an instruction is all that they share. Equal numbers make no two questions close here."""
        drawn = np.random.default_rng(0).permutation(len(self._norms))[:_TRIED]
        squares, self._squares = self._squares, np.where(numerals, np.float32(0), self._squares)
        weights = [self._near(number).weights[1:] for number in drawn.tolist()]
        self._squares = squares
        words = [self._of(number) for number in drawn]
        enough = min(_NEAREST, max(1, len(self._norms) // _OF_A_KIND))
        alone = np.array([(one >= _CLOSE).sum() < enough for one in weights], dtype=np.float32)
        lengths = [len(one) for one in words]
        there, size = np.concatenate(words), len(squares)
        all_alone = np.bincount(there, np.repeat(alone, lengths), minlength=size)
        needed: NDArray[np.bool_] = 2 * all_alone > np.bincount(there, minlength=size)
        return needed

    def _inverted(
        self, frequency: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The questions of every word, of a common one a part: the same questions for all of them."""
        lengths = np.diff(self._starts)
        questions = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        drawn = np.random.default_rng(0).random(len(lengths), dtype=np.float32)
        chances = np.minimum(1.0, _LISTED / np.maximum(frequency, 1)).astype(np.float32)
        chances[self._squares == 0] = 0
        kept = drawn[questions] < chances[self._words]
        words, questions = self._words[kept], questions[kept]
        order = np.argsort(words, kind="stable")
        starts = np.zeros(len(frequency) + 1, dtype=np.int64)
        np.cumsum(np.bincount(words, minlength=len(frequency)), out=starts[1:])
        return questions[order], starts

    def _near(self, number: int) -> Alike:
        words = self._of(number)
        words = words[self._squares[words] > 0]
        words = words[np.argsort(-self._squares[words], kind="stable")]  # the rarest first
        lengths = self._list_starts[words + 1] - self._list_starts[words]
        kept = max(1, int(np.searchsorted(np.cumsum(lengths), _LOOKED_AT)))
        words, lengths = words[:kept], lengths[:kept]
        if not len(words):
            return alone(number)
        listed = self._listed[_stretches(self._list_starts[words], lengths)]
        found, shared = _summed(listed, np.repeat(self._squares[words], lengths))
        others = found != number
        found, shared = found[others], shared[others]
        if len(found) > 2 * _NEAREST:
            likely = np.round(shared / self._norms[found], 5)
            order = np.lexsort((np.abs(found - number), -likely))
            found = np.sort(found[order[: 2 * _NEAREST]])
        return self._best(number, found)

    def _best(self, number: int, found: NDArray[np.int32]) -> Alike:
        """The nearest of those found, by all the words that they share; of a late question also of the
        late ones right before it."""
        own = np.zeros(len(self._squares), dtype=np.float32)
        words = self._of(number)
        own[words] = self._squares[words]
        lengths = self._starts[found + 1] - self._starts[found]
        shared = own[self._words[_stretches(self._starts[found], lengths)]]
        products = self._sums(shared, np.concatenate([[0], np.cumsum(lengths)]))
        late = number - len(self._norms)
        if late < 0:
            return _nearest(number, found, products / (self._norms[found] * self._norms[number]))
        first = max(0, late - _LATE)
        starts = self._late_starts[first : late + 2]  # its own, too
        words, starts = self._late_words[starts[0] : starts[-1]], starts - starts[0]
        norms = np.sqrt(self._sums(self._squares[words], starts)) + 1e-9
        cosines = self._sums(own[words], starts) / (norms * norms[-1])
        found = np.concatenate([found, np.arange(number - late + first, number, dtype=np.int32)])
        products /= self._norms[found[: len(products)]] * norms[-1]
        return _nearest(number, found, np.concatenate([products, cosines[:-1]]))

    def _of(self, number: int) -> NDArray[np.int32]:
        late = number - len(self._norms)
        if late >= 0:
            return self._late_words[self._late_starts[late] : self._late_starts[late + 1]]
        return self._words[self._starts[number] : self._starts[number + 1]]

    @staticmethod
    def _sums(values: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The sum of each stretch of values."""
        totals = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        stretches: NDArray[np.float64] = totals[starts[1:]] - totals[starts[:-1]]
        return stretches


def _stretches(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of several stretches of an array, one stretch after the other."""
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1] if len(ends) else 0)
    places += np.repeat(starts - (ends - lengths), lengths)
    return places


def _summed(
    questions: NDArray[np.int32], weights: NDArray[np.float32]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Each of the questions once, in order, and the sum of its weights. (A count over all questions of a
    large dataset would look at each of them.)"""
    if not len(questions):
        return questions, np.zeros(0)
    order = np.argsort(questions, kind="stable")
    questions = questions[order]
    starts = np.flatnonzero(np.diff(questions, prepend=-1))
    sums: NDArray[np.float64] = np.add.reduceat(weights[order].astype(np.float64), starts)
    return questions[starts], sums


def _nearest(number: int, found: NDArray[np.int32], cosines: NDArray[np.floating[Any]]) -> Alike:
    """Of the questions `found`, without `number` itself, those that are most like it, and not too little.

    Of equal ones those with the nearest numbers: every question knows others, and the order does not
    depend on how sums were added up.
    """
    cosines = np.minimum(cosines, 1.0).astype(np.float32)
    away = np.abs(found.astype(np.int64) - number)
    order = np.lexsort((found, away, -np.round(cosines, 5)))[:_NEAREST]
    order = order[cosines[order] >= _LEAST]
    return _with_itself(number, found[order], cosines[order])


def _read(texts: Iterable[str]) -> tuple[dict[str, int], NDArray[np.int32], NDArray[np.int64]]:
    """Numbers of words; and the different words of every text, one text after the other, and where each
    begins."""
    numbers: dict[str, int] = {}
    words, starts = array("i"), array("q", [0])
    for text in texts:
        for word in tokens(text):
            words.append(numbers.setdefault(word, len(numbers)))
        starts.append(len(words))
    return numbers, np.frombuffer(words, dtype=np.int32), np.frombuffer(starts, dtype=np.int64)


def alone(number: int) -> Alike:
    """A question that is like no other."""
    return _with_itself(number, np.zeros(0, np.int32), np.zeros(0, np.float32))


def _with_itself(number: int, others: NDArray[np.int32], weights: NDArray[np.float32]) -> Alike:
    numbers = np.concatenate([np.array([number], dtype=np.int32), others])
    return Alike(numbers, np.concatenate([np.ones(1, dtype=np.float32), weights]))
