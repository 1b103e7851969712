"""Training questions and ground truths as hashes: read once, added to, looked up by a candidate's words.

Hashes have 64 bits, so among a million questions of 61 words about one candidate of 500 words in a
billion is refused for nothing. They are the same in every process.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.candidates.normal_words import normal_line
from prompt_coevo.candidates.sorted_hashes import SortedHashes
from prompt_coevo.candidates.telling_words import COMMON, MOST, short_hashes, telling_words
from prompt_coevo.candidates.word_hashes import Words, hash_words, stable_hash, stable_hashes

FEWEST_WORDS: Final = 4
"""A question of so many words, or more, is looked for; as a whole if it has fewer than an n-gram."""
SHORTEST_TRUTH: Final = 3
"""A shorter one stands in every text."""
_TOGETHER: Final = 512


class KnownQuestions:
    """Questions are numbered in the order in which they are added."""

    def __init__(self, ngram: int, min_truth_chars: int) -> None:
        self.count = 0
        self.min_truth_chars = min_truth_chars
        self.gram_lengths: set[int] = set()
        self._ngram = ngram
        self._factors = stable_hashes([f"place {place}" for place in range(ngram)]) | np.uint64(1)
        self._common = np.sort(hash_words([" ".join(sorted(COMMON)).encode()]).hashes)
        self._grams, self._heads, self._short = SortedHashes(), SortedHashes(), SortedHashes()
        # Of long truths, of short ones: rows that the hashes above lead to.
        self._long_owner, self._long_hash, self._long_size = array("I"), array("Q"), array("I")
        self._short_owner, self._needed, self._telling = array("I"), array("B"), array("I")

    def add(self, questions: Iterable[tuple[str, str]]) -> None:
        """Take in questions with their ground truths, "" if there is none."""
        some = iter(questions)
        while chunk := list(islice(some, _TOGETHER)):
            words = hash_words([normal_line(question) for question, _ in chunk])
            self._add_grams(words)
            self._add_truths(words, [normal_line(truth) for _, truth in chunk])
            self.count += len(chunk)

    def grams(self, words: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
        """A hash for each run of so many words."""
        places = max(0, len(words) - length + 1)
        total = np.zeros(places, dtype=np.uint64)
        for place in range(length):
            total += words[place : place + places] * self._factors[place]
        return total

    def find_grams(self, grams: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """Places in `grams` and the questions that have them."""
        return self._grams.find(grams)

    def find_long(self, text: str) -> Iterator[tuple[str, int]]:
        """The truths of at least `min_truth_chars` characters in a text without separators, with their
        questions."""
        if not self._long_owner:
            return
        size = self.min_truth_chars
        places = range(len(text) - size + 1)
        heads = stable_hashes([text[place : place + size] for place in places])
        for place, rows in self._heads.find(heads):
            for row in rows.tolist():
                truth = text[place : place + self._long_size[row]]
                if stable_hash(truth) == self._long_hash[row]:
                    yield truth, self._long_owner[row]

    def find_short(
        self, texts: Sequence[str], words: NDArray[np.uint64]
    ) -> Iterator[NDArray[np.uint32]]:
        """The questions whose shorter truth is one of `texts`, and of whose telling words enough are
        among `words`."""
        if not self._short_owner:
            return
        there = short_hashes(words)
        for _, rows in self._short.find(stable_hashes(texts)):
            telling = np.frombuffer(self._telling, dtype=np.uint32).reshape(-1, MOST)[rows]
            needed = np.frombuffer(self._needed, dtype=np.uint8)[rows]
            owners = np.frombuffer(self._short_owner, dtype=np.uint32)[rows]
            yield owners[np.isin(telling, there).sum(axis=1) >= needed]

    # Inside

    def _add_grams(self, words: Words) -> None:
        owners = (words.texts + self.count).astype(np.uint32)
        grams = self.grams(words.hashes, self._ngram)
        whole = owners[: len(grams)] == owners[len(owners) - len(grams) :]
        self._remember(grams[whole], owners[: len(grams)][whole], self._ngram)
        starts = np.cumsum(words.counts) - words.counts
        for length in range(min(FEWEST_WORDS, self._ngram), self._ngram):
            short = np.flatnonzero(words.counts == length)
            runs = words.hashes[starts[short][:, None] + np.arange(length)]
            grams = (runs * self._factors[:length]).sum(axis=1, dtype=np.uint64)
            self._remember(grams, (short + self.count).astype(np.uint32), length)

    def _remember(self, grams: NDArray[np.uint64], owners: NDArray[np.uint32], length: int) -> None:
        if len(grams):
            self._grams.add(grams, owners)
            self.gram_lengths.add(length)

    def _add_truths(self, words: Words, truths: Sequence[bytes]) -> None:
        texts = [line.replace(b" ", b"").decode() for line in truths]
        long = [n for n, text in enumerate(texts) if len(text) >= self.min_truth_chars]
        first = len(self._long_owner)
        self._long_owner.extend(n + self.count for n in long)
        self._long_hash.extend(stable_hash(texts[n]) for n in long)
        self._long_size.extend(len(texts[n]) for n in long)
        heads = stable_hashes([texts[n][: self.min_truth_chars] for n in long])
        self._heads.add(heads, np.arange(first, first + len(long), dtype=np.uint32))
        self._add_short(words, truths, texts)

    def _add_short(self, words: Words, truths: Sequence[bytes], texts: Sequence[str]) -> None:
        short = [
            n
            for n, text in enumerate(texts)
            if SHORTEST_TRUTH <= len(text) < self.min_truth_chars and text not in COMMON
        ]
        if not short:
            return
        telling = telling_words(words, hash_words(truths), self._common)[short]
        found = np.count_nonzero(telling, axis=1)
        least = np.array([2 if texts[n].isdigit() else 1 for n in short])
        needed = np.maximum(-(-found // 2), least)
        told = np.flatnonzero(needed <= found)
        first = len(self._short_owner)
        self._short_owner.extend(short[n] + self.count for n in told.tolist())
        self._needed.extend(needed[told].tolist())
        self._telling.frombytes(telling[told].tobytes())
        hashes = stable_hashes([texts[short[n]] for n in told.tolist()])
        self._short.add(hashes, np.arange(first, first + len(told), dtype=np.uint32))
