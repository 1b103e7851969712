"""Searching a BM25 index whose files stay on the disk.

A posting is a row and the score that the word adds to it, computed when the index was built. Words
are looked up by a hash in a sorted file, so no vocabulary is loaded. The words of a query are taken
from the rarest to the most frequent. Once those left cannot lift a new passage among the best k, they
are looked up only for the passages that still can get there; the result is the same.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from prompt_coevo.retrieval.analyzer import Analyzer
from prompt_coevo.retrieval.arrays import open_array
from prompt_coevo.retrieval.bm25.analyzers import Simple
from prompt_coevo.retrieval.bm25.words import hashes
from prompt_coevo.retrieval.errors import IndexFileError

# Looking a row up in a list costs about as much as adding this many postings.
_LOOK_UP = 16
# A row counts as out of reach only if it stays this far below: sums of rounded numbers are not exact.
_MARGIN = 0.999

Rows = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float32]


class Files(NamedTuple):
    """The arrays of an index, one file each."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def create(self, name: str, dtype: npt.DTypeLike, length: int) -> npt.NDArray[Any]:
        """A new array in its file, to be filled."""
        if not length:
            np.save(self.path(name), np.empty(0, dtype=dtype))
            return np.empty(0, dtype=dtype)
        made = np.lib.format.open_memmap(self.path(name), "w+", dtype=dtype, shape=(length,))
        return cast(npt.NDArray[Any], made)

    def save(self, **arrays: npt.NDArray[Any]) -> None:
        for name, values in arrays.items():
            np.save(self.path(name), values)

    def open(self, name: str) -> npt.NDArray[Any]:
        """Raises IndexFileError."""
        return open_array(self.path(name))


class Bm25Index:
    """The rows of a corpus, or of a shard of it, by BM25. Safe to use from several threads."""

    def __init__(self, folder: Path, rows: range, analyzer: Analyzer | None = None) -> None:
        files = Files(folder)
        self._first = rows.start
        self._words = (analyzer or Simple()).words
        self._terms = files.open("terms")
        self._frequencies = files.open("frequencies")
        self._starts = files.open("starts")
        self._rows = files.open("rows")
        self._scores = files.open("scores")
        self._highest = files.open("highest")
        if len(self._starts) != len(self._terms) + 1 or self._starts[-1] != len(self._rows):
            raise IndexFileError(
                f"the files in {folder} do not belong together; build the index again"
            )
        self._sums = np.zeros(len(rows), dtype=np.float32)
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, rows: range, analyzer: Analyzer | None = None) -> Bm25Index:
        """Open what `build_bm25` wrote for these rows of the corpus with this analyzer.

        Raises IndexFileError.
        """
        return cls(folder, rows, analyzer)

    def search_rows(self, queries: Sequence[str], k: int) -> list[list[tuple[int, float]]]:
        """Rows of the corpus and their scores, the best first; of equal ones the first row is first.

        Rows without any word of the query are left out.
        """
        with self._lock:
            return [self._search(terms, k) for terms in self._look_up(queries)]

    def close(self) -> None:
        """The files are given back with the index itself."""

    def _look_up(self, queries: Sequence[str]) -> list[list[int]]:
        """The numbers of each query's known words, the rarest in the corpus first.

        A word that comes twice counts twice. The order is the same in all shards, for sums of rounded
        numbers depend on it.
        """
        split = [self._words(query) for query in queries]
        vocabulary = list({word: None for found in split for word in found})
        wanted = hashes(vocabulary)
        places = np.minimum(np.searchsorted(self._terms, wanted), max(len(self._terms) - 1, 0))
        known = self._terms[places] == wanted if len(self._terms) else np.zeros(len(wanted), bool)
        keys = zip(self._frequencies[places[known]].tolist(), places[known].tolist(), strict=True)
        found_words = [word for word, is_known in zip(vocabulary, known, strict=True) if is_known]
        key_of = dict(zip(found_words, keys, strict=True))
        return [
            [place for _, place in sorted(key_of[word] for word in found if word in key_of)]
            for found in split
        ]

    def _search(self, terms: Sequence[int], k: int) -> list[tuple[int, float]]:
        """Adds up postings, in `_sums`, until few enough rows are left to look up one by one."""
        touched: list[Rows] = []
        # What the words from each place on can add to a row at most.
        bounds = _sums_from_here([float(self._highest[term]) for term in terms])
        left = [self._count(term) for term in terms]
        try:
            for place, term in enumerate(terms):
                rows = self._contenders(touched, bounds[place], k, sum(left[place:]))
                if rows is not None:
                    return self._best(rows, self._looked_up(rows, terms[place:]), k)
                if place + 1 == len(terms) and sum(map(len, touched)) * _LOOK_UP < left[-1]:
                    rows = self._with_best_of(term, _joined(touched), k)
                    return self._best(rows, self._looked_up(rows, [term]), k)
                touched.append(self._add(term))
            rows = _joined(touched)
            return self._best(rows, self._sums[rows], k)
        finally:
            for rows in touched:
                self._sums[rows] = 0

    def _count(self, term: int) -> int:
        return int(self._starts[term + 1] - self._starts[term])

    def _postings(self, term: int) -> tuple[npt.NDArray[np.int32], Floats]:
        postings = slice(self._starts[term], self._starts[term + 1])
        return self._rows[postings], self._scores[postings]

    def _add(self, term: int) -> Rows:
        """Add the scores of one word and return the rows that had none before."""
        rows, scores = self._postings(term)
        wide: Rows = rows.astype(np.intp)
        before: Floats = self._sums.take(wide)
        self._sums[wide] = before + scores
        new: Rows = wide[before == 0]
        return new

    def _contenders(
        self, touched: Sequence[Rows], bound: float, k: int, postings: int
    ) -> Rows | None:
        """The rows among which the best k are, None if the words left must be added up for all.

        `bound` is what the words left can add to a row at most, `postings` how many there are.
        """
        count = sum(map(len, touched))
        if count < k or count > postings:
            return None
        rows = _joined(touched)
        sums = self._sums[rows]
        needed = _nth(sums, k) * _MARGIN
        if bound >= needed:
            return None
        rows = rows[sums + np.float32(bound) >= needed]
        return rows if len(rows) * _LOOK_UP < postings else None

    def _with_best_of(self, term: int, touched: Rows, k: int) -> Rows:
        """The rows touched, and those that come first by the last word alone."""
        rows, scores = self._postings(term)
        best = rows[scores >= _nth(scores, k + len(touched))].astype(np.intp)
        return np.concatenate([touched, best[self._sums[best] == 0]])

    def _looked_up(self, rows: Rows, terms: Sequence[int]) -> Floats:
        sums = self._sums[rows]
        for term in terms:
            listed, scores = self._postings(term)
            places = np.minimum(np.searchsorted(listed, rows.astype(np.int32)), len(listed) - 1)
            hit = listed[places] == rows
            sums[hit] += scores[places[hit]]
        return sums

    def _best(self, rows: Rows, sums: Floats, k: int) -> list[tuple[int, float]]:
        good = sums >= _nth(sums, k)
        rows, sums = rows[good], sums[good]
        order = np.lexsort((rows, -sums))[:k]
        return list(zip((rows[order] + self._first).tolist(), sums[order].tolist(), strict=True))


def _nth(scores: Floats, n: int) -> float:
    """The n-th highest score, the lowest if there are fewer."""
    if n >= len(scores):
        return float(scores.min(initial=np.float32(np.inf)))
    return float(np.partition(scores, len(scores) - n)[len(scores) - n])


def _joined(parts: Sequence[Rows]) -> Rows:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)


def _sums_from_here(values: Sequence[float]) -> list[float]:
    return list(accumulate(reversed(values)))[::-1]
