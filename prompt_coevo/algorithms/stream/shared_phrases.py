"""Find words that always come together, like those of a sentence that begins half of the questions."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_COMMON: Final = 0.05
"""A word in a smaller share of questions is kept: its companions show that questions are of a kind."""
_BY_CHANCE: Final = 16
"""Words in fewer questions than this may come together by chance."""
_MOST: Final = 4_096
"""Number of common words to examine, the most common first."""
_SAMPLE: Final = 1_000
_CORRELATED: Final = 0.5
_BLOCK: Final = 512


def repetitions(
    words: NDArray[np.int32], starts: NDArray[np.int64], frequency: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return for each word how many words say the same, itself included: 1 for most.

    `words` are the words of all questions, one question after the other, beginning at `starts`. Another
    word adds the fourth power of its correlation with the word, so one that always comes with it adds 1.
    """
    count = len(starts) - 1
    found = np.ones(len(frequency), dtype=np.float32)
    enough = max(_BY_CHANCE, _COMMON * count)
    common = np.flatnonzero((frequency >= enough) & (frequency < count))
    common = common[np.argsort(-frequency[common], kind="stable")[:_MOST]]
    if not len(common):
        return found
    standard = _standardized(words, starts, common, len(frequency))
    for start in range(0, len(common), _BLOCK):
        block = common[start : start + _BLOCK]
        correlations = standard[:, start : start + _BLOCK].T @ standard
        correlations[correlations < _CORRELATED] = 0
        correlations[np.arange(len(block)), np.arange(start, start + len(block))] = 0
        found[block] += (correlations**4).sum(axis=1)
    return found


def _standardized(
    words: NDArray[np.int32], starts: NDArray[np.int64], common: NDArray[np.int64], known: int
) -> NDArray[np.float32]:
    """Return which of a sample of questions have the common words, shape (questions, words), standardized
    so that the products of columns are correlations."""
    count = len(starts) - 1
    drawn = np.random.default_rng(0).permutation(count)[:_SAMPLE]
    row_of = np.full(count, -1)
    row_of[drawn] = np.arange(len(drawn))
    column_of = np.full(known, -1)
    column_of[common] = np.arange(len(common))
    rows, columns = np.repeat(row_of, np.diff(starts)), column_of[words]
    there = (rows >= 0) & (columns >= 0)
    has = np.zeros((len(drawn), len(common)), dtype=np.float32)
    has[rows[there], columns[there]] = 1
    has -= has.mean(axis=0)
    standard: NDArray[np.float32] = has / np.maximum(np.linalg.norm(has, axis=0), 1e-6)
    return standard
