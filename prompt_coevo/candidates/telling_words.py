"""The words that tell a question from others: its longest, for long words are the rare ones.

Words of three letters and numbers of two digits count, and characters of scripts without spaces; common
words do not, nor do those that the question's own ground truth has.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.candidates.word_hashes import Words

MOST: Final = 8
_COMMON: Final = """
    about above after again all also although always among and another answer answers any are around
    asked because been before being below best between both but calculate called can carefully compute
    correct could determine did does doing done down each either else even ever every explain false few
    final find first following for from get give given gives had has have having her here hers him his
    how however into its just know known last least less let like made make makes many may might more
    most much must name named need never next none nor not note now number numbers off often one only
    other others our out over own per please problem put question questions rather remember result said
    same say see shall she should show simple since solution solve some step steps still such take tell
    than that the their them then there these they thing things think third this those three through
    time times too total true two under until upon use used using value values very was way well were
    what when where whether which while who whom whose why will with within without word words work
    would write wrote yes yet you your
    """
COMMON: Final = frozenset(_COMMON.split())
"""They tell nothing, neither of a question nor as an answer."""

_MOST_BYTES: Final = 63


def short_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Hashes of words as telling words are kept: of 32 bits, and never 0."""
    return (hashes >> np.uint64(32)).astype(np.uint32) | np.uint32(1)


def telling_words(
    questions: Words, truths: Words, common: NDArray[np.uint64]
) -> NDArray[np.uint32]:
    """A row of `MOST` short hashes for every question, filled up with 0.

    `truths` are the words of their ground truths, `common` the sorted hashes of words that do not count.
    """
    telling = np.flatnonzero(questions.sizes >= 3 - questions.digits)
    telling = telling[~_is_in(questions.hashes[telling], common)]
    texts, words = questions.texts[telling], short_hashes(questions.hashes[telling])
    own = np.sort(_pairs(truths.texts, short_hashes(truths.hashes)))
    foreign = ~_is_in(_pairs(texts, words), own)
    sizes = np.minimum(questions.sizes[telling], _MOST_BYTES)
    # By question, the longest first; a word that stands there twice counts once.
    keys = _pairs(texts * (_MOST_BYTES + 1) + (_MOST_BYTES - sizes), words)[foreign]
    keys.sort()
    keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)]]
    texts = (keys >> np.uint64(32)).astype(np.int64) // (_MOST_BYTES + 1)
    rank = np.arange(len(texts)) - np.searchsorted(texts, np.arange(len(questions.counts)))[texts]
    found = np.zeros((len(questions.counts), MOST), dtype=np.uint32)
    chosen = rank < MOST
    found[texts[chosen], rank[chosen]] = keys[chosen].astype(np.uint32)
    return found


def _pairs(first: NDArray[np.int64], second: NDArray[np.uint32]) -> NDArray[np.uint64]:
    return first.astype(np.uint64) << np.uint64(32) | second.astype(np.uint64)


def _is_in(values: NDArray[np.uint64], ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    found = np.zeros(len(values), dtype=bool)
    low_bits = np.zeros(1 << 16, dtype=bool)  # most values are none of them already by these
    low_bits[ordered.astype(np.uint16)] = True
    maybe = np.flatnonzero(low_bits[values.astype(np.uint16)])
    if len(maybe):
        places = np.minimum(np.searchsorted(ordered, values[maybe]), len(ordered) - 1)
        found[maybe] = ordered[places] == values[maybe]
    return found
