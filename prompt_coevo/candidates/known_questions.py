"""An index of training questions and ground truths as hashes, to look up a candidate's words.

Hashes have 64 bits: with a million questions of 61 words, about one candidate of 500 words in a billion
is refused by mistake.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.candidates.normal_words import Words, normal_line, stable_hashes

SHORTEST_TRUTH: Final = 3
"""Shorter truths occur in every text."""
FEWEST_WORDS: Final = 4
"""Look for questions of at least so many words; as a whole if they have fewer than an n-gram."""
_TOGETHER: Final = 512
_PART: Final = 1 << 19
"""Hashes sorted at once. Sorting all of them would need as much memory again."""
_MOST: Final = 8
"""Number of words that identify a question."""
_MOST_BYTES: Final = 63
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
"""Common words, which neither identify a question nor count as an answer."""
_COMMON_HASHES: Final = np.sort(Words([" ".join(COMMON).encode()]).hashes)


class KnownQuestions:
    """Index of questions, numbered in the order in which they are added."""

    def __init__(self, ngram: int, min_truth_chars: int) -> None:
        self.count = 0
        self.min_truth_chars = min_truth_chars
        self.gram_lengths: set[int] = set()
        self._ngram = ngram
        self._grams, self._heads, self._short = SortedHashes(), SortedHashes(), SortedHashes()
        # Rows, of long and of short truths, that the hashes above point to.
        self._long_owner, self._long_hash, self._long_size = array("I"), array("Q"), array("I")
        self._short_owner, self._needed, self._telling = array("I"), array("B"), array("I")

    def add(self, questions: Iterable[tuple[str, str]]) -> None:
        """Add questions with their ground truths; "" for none."""
        some = iter(questions)
        while chunk := list(islice(some, _TOGETHER)):
            words = Words([normal_line(question) for question, _ in chunk])
            self._add_grams(words)
            self._add_truths(words, [normal_line(truth) for _, truth in chunk])
            self.count += len(chunk)

    def find_grams(self, grams: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """Yield positions in `grams` of known n-grams, with the questions that contain them."""
        return self._grams.find(grams)

    def find_long(self, text: str) -> Iterator[tuple[str, int]]:
        """Yield the long truths in a text without separators, with their questions."""
        if not self._long_owner:
            return
        size = self.min_truth_chars
        heads = stable_hashes([text[place : place + size] for place in range(len(text) - size + 1)])
        for place, rows in self._heads.find(heads):
            for row in rows.tolist():
                truth = text[place : place + self._long_size[row]]
                if stable_hashes([truth])[0] == self._long_hash[row]:
                    yield truth, self._long_owner[row]

    def find_short(
        self, texts: Sequence[str], words: NDArray[np.uint64]
    ) -> Iterator[NDArray[np.uint32]]:
        """Yield the questions with their short truth in `texts` and enough telling words in `words`."""
        if not self._short_owner:
            return
        there = _short_hashes(words)
        for _, rows in self._short.find(stable_hashes(texts)):
            telling = np.frombuffer(self._telling, dtype=np.uint32).reshape(-1, _MOST)[rows]
            needed = np.frombuffer(self._needed, dtype=np.uint8)[rows]
            owners = np.frombuffer(self._short_owner, dtype=np.uint32)[rows]
            yield owners[np.isin(telling, there).sum(axis=1) >= needed]

    # Inside

    def _add_grams(self, words: Words) -> None:
        texts = words.texts
        ends = np.cumsum(words.counts)
        for length in range(min(FEWEST_WORDS, self._ngram), self._ngram + 1):
            if length == self._ngram:
                last = texts[length - 1 :]
                chosen = np.flatnonzero(texts[: len(last)] == last)
            else:  # shorter questions, as a whole
                chosen = ends[words.counts == length] - length
            if len(chosen):
                owners = (texts[chosen] + self.count).astype(np.uint32)
                self._grams.add(words.runs(length)[chosen], owners)
                self.gram_lengths.add(length)

    def _add_truths(self, words: Words, truths: Sequence[bytes]) -> None:
        texts = [line.replace(b" ", b"").decode() for line in truths]
        long = [n for n, text in enumerate(texts) if len(text) >= self.min_truth_chars]
        self._heads.add_rows(
            len(self._long_owner), [texts[n][: self.min_truth_chars] for n in long]
        )
        self._long_owner.extend(n + self.count for n in long)
        self._long_hash.frombytes(stable_hashes([texts[n] for n in long]).tobytes())
        self._long_size.extend(len(texts[n]) for n in long)
        short = [
            n
            for n, text in enumerate(texts)
            if SHORTEST_TRUTH <= len(text) < self.min_truth_chars and text not in COMMON
        ]
        if not short:
            return
        telling = _telling_words(words, Words(truths))[short]
        found = np.count_nonzero(telling, axis=1)
        needed = np.maximum(-(-found // 2), [2 if texts[n].isdigit() else 1 for n in short])
        told = np.flatnonzero(needed <= found).tolist()
        self._short.add_rows(len(self._short_owner), [texts[short[n]] for n in told])
        self._short_owner.extend(short[n] + self.count for n in told)
        self._needed.extend(needed[told].tolist())
        self._telling.frombytes(telling[told].tobytes())


class SortedHashes:
    """A multimap from 64-bit hashes to numbers, 12 bytes per entry, that can grow at any time."""

    def __init__(self) -> None:
        self._parts: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]] = []
        self._new: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]] = []

    def add(self, hashes: NDArray[np.uint64], numbers: NDArray[np.uint32]) -> None:
        """Add `numbers[i]` under `hashes[i]`."""
        if not len(hashes):
            return
        self._new.append((hashes, numbers))
        if sum(len(one) for one, _ in self._new) >= _PART:
            self._sort()

    def add_rows(self, first: int, texts: Sequence[str]) -> None:
        """Add `first` under the hash of the first text, `first + 1` under the second, and so on."""
        self.add(stable_hashes(texts), np.arange(first, first + len(texts), dtype=np.uint32))

    def find(self, hashes: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """Yield for each known hash its position in `hashes` and the numbers added under it.

        The order is undefined, and a hash may come up more than once, with different numbers.
        """
        self._sort()
        for known, numbers in self._parts:
            first = np.searchsorted(known, hashes, "left")
            there = np.flatnonzero(known[np.minimum(first, len(known) - 1)] == hashes)
            ends = np.searchsorted(known, hashes[there], "right")
            for place, end in zip(there.tolist(), ends.tolist(), strict=True):
                yield place, numbers[first[place] : end]

    def _sort(self) -> None:
        """Sort the new entries, together with the last part if it is small."""
        if not self._new:
            return
        if self._parts and len(self._parts[-1][0]) < _PART // 2:
            self._new.insert(0, self._parts.pop())
        hashes = np.concatenate([one for one, _ in self._new])
        numbers = np.concatenate([one for _, one in self._new])
        order = np.argsort(hashes)
        self._parts.append((hashes[order], numbers[order]))
        self._new.clear()


def _telling_words(questions: Words, truths: Words) -> NDArray[np.uint32]:
    """Return the words that identify each question: rows of short hashes, padded with 0.

    They are the question's longest words, since long words are rare. Words of at least three letters,
    numbers of at least two digits and characters of scripts without spaces count; common words and those of
    the question's own ground truth do not.
    """
    hashes = questions.hashes
    telling = np.flatnonzero(questions.sizes >= 3 - questions.digits)
    telling = telling[~_is_in(hashes[telling], _COMMON_HASHES)]
    texts, words = questions.texts[telling], _short_hashes(hashes[telling])
    own = np.sort(_pairs(truths.texts, _short_hashes(truths.hashes)))
    foreign = ~_is_in(_pairs(texts, words), own)
    sizes = np.minimum(questions.sizes[telling], _MOST_BYTES)
    # Sort by question, the longest word first; drop duplicates.
    keys = _pairs(texts * (_MOST_BYTES + 1) + (_MOST_BYTES - sizes), words)[foreign]
    keys.sort()
    keys = keys[np.diff(keys, prepend=np.uint64(0)) > 0]  # np.unique takes three times as long
    texts = (keys >> np.uint64(32)).astype(np.int64) // (_MOST_BYTES + 1)
    rank = np.arange(len(texts)) - np.searchsorted(texts, np.arange(len(questions.counts)))[texts]
    found = np.zeros((len(questions.counts), _MOST), dtype=np.uint32)
    chosen = rank < _MOST
    found[texts[chosen], rank[chosen]] = keys[chosen].astype(np.uint32)
    return found


def _short_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Shorten hashes to the 32 bits in which telling words are stored, never 0."""
    return (hashes >> np.uint64(32)).astype(np.uint32) | np.uint32(1)


def _pairs(first: NDArray[np.int64], second: NDArray[np.uint32]) -> NDArray[np.uint64]:
    return first.astype(np.uint64) << np.uint64(32) | second.astype(np.uint64)


def _is_in(values: NDArray[np.uint64], ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    found = np.zeros(len(values), dtype=bool)
    low_bits = np.zeros(1 << 16, dtype=bool)  # rules most values out cheaply
    low_bits[ordered.astype(np.uint16)] = True
    maybe = np.flatnonzero(low_bits[values.astype(np.uint16)])
    if len(maybe):
        places = np.minimum(np.searchsorted(ordered, values[maybe]), len(ordered) - 1)
        found[maybe] = ordered[places] == values[maybe]
    return found
