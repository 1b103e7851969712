"""Find out which questions are alike: what solves one may solve the others.

The setting `stream.likeness` names a factory, `factory(context, questions) -> Likeness`. It may read the
questions once, in the order of their numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

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
"""Lower values are noise from a few common words."""
_LISTED: Final = 2_000
"""For a word in more questions than this, the index lists a random sample of about this size."""
_LOOKED_AT: Final = 5_000
"""Index entries read for one question, those of its rarest words first."""
_LATE: Final = 1_000
"""A late question is compared with this many late questions, those right before it."""
_TRIED: Final = 500
"""Questions sampled to test whether words that come together may count once."""
_CLOSE: Final = 0.6
_OF_A_KIND: Final = 1_000
"""Words that come together count once only if most questions with them still have, at this likeness or
more, as many others as a thousandth of all questions: more than chance gives."""
_CACHED: Final = 131_072
"""Answers cached by a likeness."""


class Alike(NamedTuple):
    """Questions by number, and how much each is like the one asked about, in (0, 1]."""

    numbers: NDArray[np.int32]
    weights: NDArray[np.float32]


class Likeness(Protocol):
    """Tells which questions are alike. A question's number is its position in the policy's order."""

    def near(self, number: int) -> Alike:
        """Return the question itself first, with weight 1, then those most like it."""
        ...


@runtime_checkable
class Growing(Likeness, Protocol):
    """Adds late questions as they come. Any other likeness ignores them until all are compared again."""

    def join(self, questions: Iterable[Question]) -> None:
        """Add the next questions. The result of `near` must not depend on how many came at once."""
        ...


LikenessFactory: TypeAlias = Callable[[Context, Iterable[Question]], Likeness]


def built(factory: LikenessFactory, context: Context, questions: Iterable[Question]) -> Likeness:
    """Call a factory. Raises PluginError if it raises an error that is not a CoevoError."""
    try:
        return factory(context, questions)
    except CoevoError:
        raise
    except Exception as error:
        name = context.settings.section(StreamSettings).likeness
        raise PluginError(
            f"stream.likeness = {name!r} cannot be built: {type(error).__name__}: {error}; fix it, or "
            "choose another one"
        ) from error


def words(context: Context, questions: Iterable[Question]) -> Likeness:
    """Compare questions by the words they share."""
    return Words(question_text(question.prompt) for question in questions)


def none(context: Context, questions: Iterable[Question]) -> Likeness:
    """Treat no two questions as alike."""
    return Unlike()


class Unlike:
    """Treats no two questions as alike."""

    def near(self, number: int) -> Alike:
        return alone(number)


class Words:
    """Cosine of tf-idf vectors of the words (`tokens`) that a question shares with others, ignoring case.

    A word in only one question or in all of them does not count. Common words that come together, like
    those of an instruction, count once, if the questions with them are still like others that way. `texts`
    are read once; the index takes 4 bytes for each distinct word of a question, and at most twice that.
    Questions added by `join` are compared with the first ones and with the 1 000 that joined before them,
    by word weights that do not include late questions.
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
        """Return the words to weigh in full again: most of their questions have hardly any close ones under
        the present weights, so what looked like an instruction is all that they share. Equal numbers do not
        make questions close here."""
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
        """Build the index of questions by word. All common words list the same sample of questions."""
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
        """Return the nearest of the questions found, by all words they share; for a late question, also of
        the late ones right before it."""
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
        """Return the sum of each stretch of values."""
        totals = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        stretches: NDArray[np.float64] = totals[starts[1:]] - totals[starts[:-1]]
        return stretches


def _stretches(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of several stretches of an array, one stretch after the other."""
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1] if len(ends) else 0)
    places += np.repeat(starts - (ends - lengths), lengths)
    return places


def _summed(
    questions: NDArray[np.int32], weights: NDArray[np.float32]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the distinct questions in order, and the sum of weights of each. (A bincount would cost as
    much as the dataset is large.)"""
    if not len(questions):
        return questions, np.zeros(0)
    order = np.argsort(questions, kind="stable")
    questions = questions[order]
    starts = np.flatnonzero(np.diff(questions, prepend=-1))
    sums: NDArray[np.float64] = np.add.reduceat(weights[order].astype(np.float64), starts)
    return questions[starts], sums


def _nearest(number: int, found: NDArray[np.int32], cosines: NDArray[np.floating]) -> Alike:
    """Return the questions in `found` that are most like `number` (not itself), if they are like enough.

    Among equals, those with the nearest numbers win, so that every question lists others and the order does
    not depend on rounding.
    """
    cosines = np.minimum(cosines, 1.0).astype(np.float32)
    away = np.abs(found.astype(np.int64) - number)
    order = np.lexsort((found, away, -np.round(cosines, 5)))[:_NEAREST]
    order = order[cosines[order] >= _LEAST]
    return _with_itself(number, found[order], cosines[order])


def _read(texts: Iterable[str]) -> tuple[dict[str, int], NDArray[np.int32], NDArray[np.int64]]:
    """Read texts. Return the words' numbers, the distinct words of every text one text after the other, and
    the index at which each text begins."""
    numbers: dict[str, int] = {}
    words, starts = array("i"), array("q", [0])
    for text in texts:
        for word in tokens(text):
            words.append(numbers.setdefault(word, len(numbers)))
        starts.append(len(words))
    return numbers, np.frombuffer(words, dtype=np.int32), np.frombuffer(starts, dtype=np.int64)


def alone(number: int) -> Alike:
    """Return the answer for a question that is like no other."""
    return _with_itself(number, np.zeros(0, np.int32), np.zeros(0, np.float32))


def _with_itself(number: int, others: NDArray[np.int32], weights: NDArray[np.float32]) -> Alike:
    numbers = np.concatenate([np.array([number], dtype=np.int32), others])
    return Alike(numbers, np.concatenate([np.ones(1, dtype=np.float32), weights]))
