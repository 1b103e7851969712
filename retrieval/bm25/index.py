"""Search a BM25 index whose files stay on disk.

A posting is a row and the score that the word adds to it, computed when the index was built. Words are
looked up by hash in a sorted file, so no vocabulary is loaded. The code that adds up postings is compiled:
see `kernels`. It needs numba. The first compilation on a machine takes some seconds; the result is cached
beside this file, in the user's cache if that is not writable, or in NUMBA_CACHE_DIR if set.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import require
from prompt_coevo.retrieval.analyzer import Analyzer
from prompt_coevo.retrieval.arrays import open_array, write_head
from prompt_coevo.retrieval.bm25.words import hashes
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.shards import Ranking

_KINDS: Final = {
    "terms": "uint64",
    "frequencies": "int64",
    "starts": "int64",
    "rows": "int32",
    "scores": "float32",
    "highest": "float32",
}
_CHUNK = 8  # queries that a thread takes at a time
_WORTH_THREADS = 200_000  # postings; fewer are added up faster than a thread wakes up
_MOST_KNOWN = 1 << 16  # words
_THREADS: Final = "OMP_NUM_THREADS"

Place: TypeAlias = tuple[int, int]
"""A word's frequency in the corpus and its number in this index."""


class Files(NamedTuple):
    """The arrays of an index, one file each."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    @contextlib.contextmanager
    def append(self, name: str, dtype: npt.DTypeLike, length: int) -> Iterator[BinaryIO]:
        """Create a file for an array, whose numbers are then written in order."""
        with self.path(name).open("wb") as file:
            write_head(file, dtype, (length,))
            yield file

    def save(self, **arrays: npt.NDArray[Any]) -> None:
        for name, values in arrays.items():
            np.save(self.path(name), values)

    def open(self, name: str) -> npt.NDArray[Any]:
        """Map an array's file into memory. Raises IndexFileError."""
        return open_array(self.path(name))


class _Asked(NamedTuple):
    """The known words of some queries; within a query the word rarest in the corpus comes first.

    The n-th query has the words from `starts[n]` to `starts[n + 1]`; `weights` is how often each occurs in
    it. All shards use the same order, because sums of rounded numbers depend on it.
    """

    words: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    starts: npt.NDArray[np.int64]


class _Sums(NamedTuple):
    """A thread's buffers for adding up, one block of rows at a time."""

    sums: npt.NDArray[np.float32]
    chosen: npt.NDArray[np.int32]


class _Best(NamedTuple):
    """One line per query; its first `found` entries are hits."""

    scores: npt.NDArray[np.float32]
    rows: npt.NDArray[np.int64]
    found: npt.NDArray[np.int64]


class Bm25Index:
    """BM25 search over a corpus or a shard of it. Safe to use from several threads.

    Large batches are divided among the cores of the process. Raises IndexFileError, and MissingExtraError
    without numba.
    """

    def __init__(self, folder: Path, rows: range, analyzer: Analyzer) -> None:
        require("numba", extra="retrieval", purpose="searching by words")
        from prompt_coevo.retrieval.bm25 import kernels

        self._kernels = kernels
        self._words = analyzer.words
        self.folder, self._first, self._passages = folder, rows.start, len(rows)
        arrays = {name: Files(folder).open(name) for name in _KINDS}
        if any(arrays[name].dtype != kind for name, kind in _KINDS.items()):
            raise self._misfit()
        self._terms, self._frequencies = arrays["terms"], arrays["frequencies"]
        self._starts, self._highest = arrays["starts"], arrays["highest"]
        self._rows, self._scores = arrays["rows"], arrays["scores"]
        lengths = {len(self._frequencies), len(self._highest), len(self._starts) - 1}
        if lengths != {len(self._terms)} or {self._starts[-1], len(self._scores)} != {
            len(self._rows)
        }:
            raise self._misfit()
        self._known: dict[str, Place] = {}
        self._free: deque[_Sums] = deque()
        threads = _cores()
        self._others = ThreadPoolExecutor(threads, "bm25") if threads > 1 else None

    def search_rows(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return rows of the corpus and their scores, best first; of equal scores the first row comes
        first.

        Rows without any word of the query are left out. Raises IndexFileError if a word's postings are
        damaged.
        """
        asked = self._look_up([self._words(query) for query in queries])
        shape = len(queries), max(min(k, self._passages), 1)
        best = _Best(
            np.empty(shape, dtype=np.float32),
            np.empty(shape, dtype=np.int64),
            np.empty(len(queries), dtype=np.int64),
        )
        self._score(asked, best)
        if self._kernels.DAMAGED in best.found:
            raise IndexFileError(
                f"the postings in {self.folder} are damaged; build the index again"
            )
        lines = zip(best.rows.tolist(), best.scores.tolist(), best.found.tolist(), strict=True)
        first = self._first
        return [
            [(first + row, score) for row, score in zip(rows[:found], scores[:found], strict=True)]
            for rows, scores, found in lines
        ]

    def close(self) -> None:
        """Close, as `RowSearcher.close`: ends the threads. Files are released with the index itself."""
        if self._others is not None:
            self._others.shutdown(wait=False)

    def _look_up(self, queries: Sequence[Sequence[str]]) -> _Asked:
        known = self._places({word for query in queries for word in query})
        numbers: list[int] = []
        weights: list[int] = []
        starts = [0]
        for query in queries:
            own = sorted((known[word], n) for word, n in Counter(query).items() if word in known)
            numbers.extend(place for (_, place), _ in own)
            weights.extend(n for _, n in own)
            starts.append(len(numbers))
        return _Asked(
            np.array(numbers, dtype=np.int64),
            np.array(weights, dtype=np.float32),
            np.array(starts, dtype=np.int64),
        )

    def _places(self, vocabulary: set[str]) -> dict[str, Place]:
        """Return the places of those words that the index has. They are cached, since most words come
        again."""
        known = self._known
        unknown = [word for word in vocabulary if word not in known]
        if not unknown or not len(self._terms):
            return known
        if len(known) + len(unknown) > _MOST_KNOWN:
            # A new dict: another thread may be reading the old one.
            self._known = known = {}
            unknown = list(vocabulary)
        wanted = hashes(unknown)
        places = np.minimum(np.searchsorted(self._terms, wanted), len(self._terms) - 1)
        hit = (self._terms[places] == wanted).tolist()
        found = zip(self._frequencies[places].tolist(), places.tolist(), strict=True)
        known.update(
            (word, place) for word, place, is_it in zip(unknown, found, hit, strict=True) if is_it
        )
        return known

    def _score(self, asked: _Asked, best: _Best) -> None:
        count = len(best.found)
        if self._others is None or count == 1 or self._postings(asked) < _WORTH_THREADS:
            self._score_some(asked, best, 0, count)
            return
        chunks = [(first, min(first + _CHUNK, count)) for first in range(0, count, _CHUNK)]
        for _ in self._others.map(lambda chunk: self._score_some(asked, best, *chunk), chunks):
            pass

    def _postings(self, asked: _Asked) -> int:
        return int((self._starts[asked.words + 1] - self._starts[asked.words]).sum())

    def _score_some(self, asked: _Asked, best: _Best, first: int, end: int) -> None:
        """Fill the lines of queries `first` to `end`."""
        work = self._take()
        self._kernels.search(
            *(self._rows, self._scores, self._starts, self._highest),
            *(asked.words, asked.weights, asked.starts[first : end + 1], self._passages),
            *work,
            *(best.scores[first:end], best.rows[first:end], best.found[first:end]),
        )
        self._free.append(work)

    def _take(self) -> _Sums:
        try:
            return self._free.pop()
        except IndexError:
            size = self._kernels.BLOCK + 1
            return _Sums(np.zeros(size, dtype=np.float32), np.zeros(size, dtype=np.int32))

    def _misfit(self) -> IndexFileError:
        return IndexFileError(
            f"the files in {self.folder} do not belong together; build the index again"
        )


def _cores() -> int:
    """Return the number of threads per search: OMP_NUM_THREADS, which torch and faiss also heed, else the
    cores of this process.

    Raises SettingsError if the variable is not a number.
    """
    wanted = os.environ.get(_THREADS, "").partition(",")[0].strip()  # a list is for nested threads
    if not wanted:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if not wanted.isdecimal() or int(wanted) == 0:
        raise SettingsError(f"{_THREADS} must be a number above 0, but is {wanted!r}")
    return int(wanted)
