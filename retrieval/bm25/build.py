"""Building a BM25 index within little memory, however large the corpus is.

The passages are read in runs. The postings of a run (which word is how often in which passage) go to
the disk sorted by word; then the runs are merged word by word into the final files, with scores
computed from the statistics of the whole corpus. So the shards of an index score as one index would.
In memory are one run and the vocabulary, about 40 bytes a word.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prompt_coevo.retrieval.analyzer import Analyzer
from prompt_coevo.retrieval.bm25.analyzers import Simple
from prompt_coevo.retrieval.bm25.index import Files
from prompt_coevo.retrieval.bm25.words import hashes
from prompt_coevo.retrieval.corpus import Corpus, Progress
from prompt_coevo.retrieval.shards import Shard

K1, B = 0.9, 0.4
"""What Search-R1's BM25 uses: Anserini's values, tuned on passages of about 100 words."""

_RUN = 50_000  # passages

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Hashes = npt.NDArray[np.uint64]
Words = Callable[[str], list[str]]


class _Run(NamedTuple):
    """Postings of neighbouring rows, in their order.

    Of the postings the first `counts[0]` are those of `terms[0]`, and so on. Rows are counted from the
    first of the part; `lengths` has a number of words for each row from `first` on.
    """

    terms: Hashes
    counts: Ints
    rows: npt.NDArray[np.int32]
    repeats: npt.NDArray[np.int32]
    first: int
    lengths: npt.NDArray[np.int32]


class _Statistics(NamedTuple):
    """Of the whole corpus: in how many passages each term is, and how long these are."""

    terms: Hashes
    frequencies: Ints
    passages: int
    average_length: float


def build_bm25(
    corpus: Corpus,
    parts: Sequence[Shard],
    work: Path,
    progress: Progress | None = None,
    analyzer: Analyzer | None = None,
) -> dict[str, Any]:
    """Write the index of each part; `work` is a folder for temporary files, which is removed.

    The parts together are the corpus; each has a folder for its index alone. `analyzer` is what it must be
    opened with again, `Simple` if there is none. Returns what the manifest says about the index.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    steps = _Steps(2 * len(corpus), progress)
    words = (analyzer or Simple()).words
    runs = [list(_write_runs(corpus, part.rows, work, words, steps)) for part in parts]
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


class _Steps:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def advance(self, rows: int) -> None:
        self._done += rows
        if self._progress:
            self._progress(self._done, self._total)


def _write_runs(
    corpus: Corpus, rows: range, work: Path, words: Words, steps: _Steps
) -> Iterator[Path]:
    for first in range(rows.start, rows.stop, _RUN):
        chosen = range(first, min(first + _RUN, rows.stop))
        path = work / f"{first}.npz"
        found = (words(passage.contents) for passage in corpus.passages(chosen))
        run = _run(found, first - rows.start)
        np.savez(path, **run._asdict())
        steps.advance(len(chosen))
        yield path


def _read_run(path: Path) -> _Run:
    with np.load(path) as stored:
        return _Run(**{name: stored[name] for name in _Run._fields})


class _Numbers(dict[str, int]):
    """Gives each new word the next number."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def _run(passages: Iterator[list[str]], first: int) -> _Run:
    numbers, sequence, counted = _Numbers(), array("i"), array("i")
    for found in passages:
        sequence.extend([numbers[word] for word in found])
        counted.append(len(found))
    lengths = np.array(counted, dtype=np.int32)
    terms, rank = np.unique(hashes(numbers), return_inverse=True)
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    keys = rank[np.array(sequence, dtype=np.int64)] * len(lengths) + row_of
    keys, repeats = np.unique(keys, return_counts=True)
    term_of, row = np.divmod(keys, len(lengths))
    counts = np.bincount(term_of, minlength=len(terms))
    return _Run(
        terms, counts, (row + first).astype(np.int32), repeats.astype(np.int32), first, lengths
    )


def _statistics(runs: Sequence[Path]) -> _Statistics:
    terms = _all_terms(runs)
    frequencies = np.zeros(len(terms), dtype=np.int64)
    passages = length = 0
    for run in map(_read_run, runs):
        frequencies[np.searchsorted(terms, run.terms)] += run.counts
        passages += len(run.lengths)
        length += int(run.lengths.sum(dtype=np.int64))
    return _Statistics(terms, frequencies, passages, length / passages)


def _all_terms(runs: Sequence[Path]) -> Hashes:
    return np.unique(np.concatenate([_read_run(run).terms for run in runs]))


def _write_part(folder: Path, runs: Sequence[Path], statistics: _Statistics, steps: _Steps) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder)
    terms = _all_terms(runs)
    known = np.searchsorted(statistics.terms, terms)
    frequencies = statistics.frequencies[known]
    weights = _inverse_frequencies(frequencies, statistics.passages)
    counts = np.zeros(len(terms), dtype=np.int64)
    for run in map(_read_run, runs):
        counts[np.searchsorted(terms, run.terms)] += run.counts
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = files.create("rows", np.int32, int(starts[-1]))
    scores = files.create("scores", np.float32, int(starts[-1]))
    free = starts[:-1].copy()
    for run in map(_read_run, runs):
        term = np.searchsorted(terms, run.terms)
        places = _consecutive(free[term], run.counts)
        rows[places] = run.rows
        scores[places] = np.repeat(weights[term], run.counts) * _saturated(run, statistics)
        free[term] += run.counts
        steps.advance(len(run.lengths))
    highest = np.maximum.reduceat(scores, starts[:-1]) if len(terms) else scores[:0]
    files.save(terms=terms, frequencies=frequencies, starts=starts, highest=highest)


def _consecutive(starts: Ints, counts: Ints) -> Ints:
    """`counts[0]` numbers from `starts[0]` on, then `counts[1]` from `starts[1]` on, ..."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())


def _inverse_frequencies(frequencies: Ints, passages: int) -> Floats:
    """idf = ln(1 + (N - df + 0.5) / (df + 0.5)), as in Lucene."""
    ratio = (passages - frequencies + 0.5) / (frequencies + 0.5)
    return np.log1p(ratio).astype(np.float32)


def _saturated(run: _Run, statistics: _Statistics) -> Floats:
    """tf / (tf + k1 (1 - b + b |d| / avgdl))"""
    norms = K1 * (1 - B + B * run.lengths / max(statistics.average_length, 1e-9))
    return (run.repeats / (run.repeats + norms[run.rows - run.first])).astype(np.float32)
