"""Build a BM25 index of a corpus of any size in little memory.

The passages are read in runs. The postings of a run (how often each word occurs in each passage) are
written to disk sorted by word. Then the runs are merged, some words at a time, into the final files, with
scores computed from the statistics of the whole corpus, so that the shards of an index score like one
index. Memory holds one run (or as many postings as a run has), the vocabulary at about 40 bytes per word,
and 4 bytes per passage. Files being written are not mapped, because mapped pages would count as memory,
too.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prompt_coevo.retrieval.analyzer import Analyzer
from prompt_coevo.retrieval.bm25.index import Files
from prompt_coevo.retrieval.bm25.words import hashes
from prompt_coevo.retrieval.corpus import Corpus, Progress, Steps
from prompt_coevo.retrieval.shards import Shard

K1, B = 0.9, 0.4
"""Search-R1's BM25 parameters: Anserini's values, tuned on passages of about 100 words."""

_RUN = 1_000_000  # words
_SLAB = 1_000_000  # postings merged at a time

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Hashes = npt.NDArray[np.uint64]
Words = Callable[[str], list[str]]


class _Run(NamedTuple):
    """Postings of neighbouring rows, in row order within a term.

    The first `counts[0]` postings are those of `terms[0]`, and so on. Rows are counted from the first of
    the part; `lengths` has the number of words of each row in the run.
    """

    terms: Hashes
    counts: Ints
    rows: npt.NDArray[np.int32]
    repeats: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]


class _RunFiles(NamedTuple):
    """A run on disk, read in pieces."""

    stem: Path

    def write(self, run: _Run) -> None:
        for name, values in run._asdict().items():
            self.stem.with_suffix(f".{name}").write_bytes(values.data)  # `tofile` hides a full disk

    def read(self, name: str, first: int = 0, end: int | None = None) -> npt.NDArray[Any]:
        kind = np.dtype(_KINDS[name])
        return np.fromfile(
            self.stem.with_suffix(f".{name}"),
            dtype=kind,
            count=-1 if end is None else end - first,
            offset=first * kind.itemsize,
        )


_KINDS = {
    "terms": np.uint64,
    "counts": np.int64,
    "rows": np.int32,
    "repeats": np.int32,
    "lengths": np.int32,
}


class _Statistics(NamedTuple):
    """Statistics of the whole corpus: the number of passages with each term, and the passages' length."""

    terms: Hashes
    frequencies: Ints
    passages: int
    average_length: float


def build_bm25(
    corpus: Corpus,
    parts: Sequence[Shard],
    work: Path,
    progress: Progress | None,
    analyzer: Analyzer,
) -> dict[str, float]:
    """Write the index of each part. `work` is a folder for temporary files; it is removed.

    The parts together are the corpus; each has its own folder. The index must be opened with the same
    `analyzer`. Returns the manifest's entry about the index.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    steps = Steps(2 * len(corpus), progress)
    runs = [list(_write_runs(corpus, part.rows, work, analyzer.words, steps)) for part in parts]
    statistics = _statistics([run for of_part in runs for run in of_part])
    for part, of_part in zip(parts, runs, strict=True):
        _write_part(part.folder, of_part, statistics, steps)
    shutil.rmtree(work)
    return {
        "k1": K1,
        "b": B,
        "terms": len(statistics.terms),
        "average_length": round(statistics.average_length, 3),
    }


def _write_runs(
    corpus: Corpus, rows: range, work: Path, words: Words, steps: Steps
) -> Iterator[_RunFiles]:
    found = (words(passage.contents) for passage in corpus.passages(rows))
    row = rows.start
    while row < rows.stop:
        run = _run(found, row - rows.start)
        files = _RunFiles(work / f"{row}")
        files.write(run)
        steps.advance(len(run.lengths))
        row += len(run.lengths)
        yield files


class _Numbers(dict[str, int]):
    """Numbers each new word."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def _run(passages: Iterator[list[str]], first: int) -> _Run:
    """Make a run of the next texts, with at least one text and about `_RUN` words together."""
    numbers, sequence, counted = _Numbers(), array("i"), array("i")
    for found in passages:
        sequence.extend([numbers[word] for word in found])
        counted.append(len(found))
        if len(sequence) >= _RUN:
            break
    lengths = np.array(counted, dtype=np.int32)
    terms, rank = np.unique(hashes(numbers), return_inverse=True)
    keys = rank[np.frombuffer(sequence, dtype=np.int32)] * len(lengths)
    keys += np.repeat(np.arange(len(lengths)), lengths)
    keys, repeats = np.unique(keys, return_counts=True)
    term_of, row = np.divmod(keys, len(lengths))
    counts = np.bincount(term_of, minlength=len(terms))
    return _Run(terms, counts, (row + first).astype(np.int32), repeats.astype(np.int32), lengths)


def _statistics(runs: Sequence[_RunFiles]) -> _Statistics:
    terms = _all_terms(runs)
    lengths = [run.read("lengths") for run in runs]
    passages = sum(map(len, lengths))
    length = sum(int(of_run.sum(dtype=np.int64)) for of_run in lengths)
    return _Statistics(terms, _counts(runs, terms), passages, length / passages)


def _all_terms(runs: Sequence[_RunFiles]) -> Hashes:
    """Merge the terms of all runs, several runs at a time because most words are in many runs."""
    terms = np.empty(0, dtype=np.uint64)
    more: list[Hashes] = []
    for run in runs:
        more.append(run.read("terms"))
        if sum(map(len, more)) > max(len(terms), _RUN):
            terms, more = np.unique(np.concatenate([terms, *more])), []
    return np.unique(np.concatenate([terms, *more]))


def _counts(runs: Sequence[_RunFiles], terms: Hashes) -> Ints:
    """Count the postings of each term."""
    counts = np.zeros(len(terms), dtype=np.int64)
    for run in runs:
        counts[np.searchsorted(terms, run.read("terms"))] += run.read("counts")
    return counts


def _write_part(
    folder: Path, runs: Sequence[_RunFiles], statistics: _Statistics, steps: Steps
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder)
    terms = _all_terms(runs)
    frequencies = statistics.frequencies[np.searchsorted(statistics.terms, terms)]
    starts = np.concatenate([[0], np.cumsum(_counts(runs, terms))])
    merging = _Merging(runs, terms, starts, _norms(runs, statistics))
    weights = _inverse_frequencies(frequencies, statistics.passages)
    highest = np.zeros(len(terms), dtype=np.float32)
    done, passages = 0, len(merging.norms)
    with (
        files.append("rows", np.int32, int(starts[-1])) as rows_file,
        files.append("scores", np.float32, int(starts[-1])) as scores_file,
    ):
        for first, end in merging.slabs():
            rows, scores = merging.merge(first, end)
            scores *= np.repeat(weights[first:end], np.diff(starts[first : end + 1]))
            highest[first:end] = np.maximum.reduceat(scores, starts[first:end] - starts[first])
            rows_file.write(rows.tobytes())
            scores_file.write(scores.tobytes())
            so_far = passages * int(starts[end]) // int(starts[-1])
            steps.advance(so_far - done)
            done = so_far
    steps.advance(passages - done)
    files.save(terms=terms, frequencies=frequencies, starts=starts, highest=highest)


class _Merging:
    """The runs of a part, read some terms at a time; `norms` has one value per row."""

    def __init__(
        self, runs: Sequence[_RunFiles], terms: Hashes, starts: Ints, norms: Floats
    ) -> None:
        self._runs, self._terms, self._starts, self.norms = runs, terms, starts, norms
        self._bounds = self._slab_bounds()
        # For each run, where each slab's terms begin, and where its postings do.
        self._term_bounds: list[Ints] = []
        self._posting_bounds: list[Ints] = []
        for run in runs:
            places = np.append(np.searchsorted(terms, run.read("terms")), len(terms))
            bounds = np.searchsorted(places, self._bounds)
            before = np.concatenate([[0], np.cumsum(run.read("counts"))])
            self._term_bounds.append(bounds)
            self._posting_bounds.append(before[bounds])

    def slabs(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of neighbouring terms with at most `_SLAB` postings, or single terms with more."""
        bounds = self._bounds.tolist()
        return pairwise(bounds)

    def merge(self, first: int, end: int) -> tuple[npt.NDArray[np.int32], Floats]:
        """Return the rows of these terms' postings and their tf / (tf + norm), term by term."""
        slab = int(np.searchsorted(self._bounds, first))
        free = self._starts[first:end] - self._starts[first]
        rows = np.empty(self._starts[end] - self._starts[first], dtype=np.int32)
        scores = np.empty(len(rows), dtype=np.float32)
        every = zip(self._runs, self._term_bounds, self._posting_bounds, strict=True)
        for run, term_bounds, posting_bounds in every:
            those = (int(term_bounds[slab]), int(term_bounds[slab + 1]))
            postings = (int(posting_bounds[slab]), int(posting_bounds[slab + 1]))
            counts = run.read("counts", *those)
            term = np.searchsorted(self._terms[first:end], run.read("terms", *those))
            places = _consecutive(free[term], counts)
            own_rows, repeats = run.read("rows", *postings), run.read("repeats", *postings)
            rows[places] = own_rows
            scores[places] = repeats / (repeats + self.norms[own_rows])
            free[term] += counts
        return rows, scores

    def _slab_bounds(self) -> Ints:
        bounds = [0]
        while bounds[-1] < len(self._terms):
            full = int(np.searchsorted(self._starts, self._starts[bounds[-1]] + _SLAB, "right")) - 1
            bounds.append(max(full, bounds[-1] + 1))
        return np.array(bounds)


def _consecutive(starts: Ints, counts: Ints) -> Ints:
    """Return `counts[0]` numbers from `starts[0]` on, then `counts[1]` from `starts[1]` on, ..."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())


def _inverse_frequencies(frequencies: Ints, passages: int) -> Floats:
    """Compute idf = ln(1 + (N - df + 0.5) / (df + 0.5)), as in Lucene."""
    ratio = (passages - frequencies + 0.5) / (frequencies + 0.5)
    return np.log1p(ratio).astype(np.float32)


def _norms(runs: Sequence[_RunFiles], statistics: _Statistics) -> Floats:
    """Compute k1 (1 - b + b |d| / avgdl)."""
    lengths = np.concatenate([run.read("lengths") for run in runs])
    norms = K1 * (1 - B + B * lengths / max(statistics.average_length, 1e-9))
    return norms.astype(np.float32)
