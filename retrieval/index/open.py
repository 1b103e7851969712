"""Opening an index: from its folder to something that answers queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.index import layout, manifest
from prompt_coevo.retrieval.index.manifest import Manifest
from prompt_coevo.retrieval.index.shards import RowSearcher, Shards
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, Limits, check_search

# Reciprocal rank fusion looks this deep into each ranking.
_FUSED_DEPTH = 100


class PassageIndex:
    """A Retriever on an index of this machine."""

    def __init__(
        self, made: Manifest, corpus: Corpus, searcher: RowSearcher, limits: Limits | None = None
    ) -> None:
        self._manifest = made
        self._corpus = corpus
        self._searcher = searcher
        self._limits = limits

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """As Retriever says."""
        check_search(queries, k, self._limits)
        return [self._hits(ranking) for ranking in self._searcher.search_rows(queries, k)]

    def info(self) -> IndexInfo:
        """As Retriever says."""
        return describe(self._manifest)

    def close(self) -> None:
        """As Retriever says."""
        self._searcher.close()
        self._corpus.close()

    def _hits(self, ranking: Sequence[tuple[int, float]]) -> list[Hit]:
        found = [(self._corpus.passage(row), score) for row, score in ranking]
        return [
            Hit(passage.id, passage.contents, score, rank)
            for rank, (passage, score) in enumerate(found, 1)
        ]


def open_index(
    folder: Path, *, corpus: Path | None = None, limits: Limits | None = None
) -> PassageIndex:
    """Open what `build` made; `corpus` is where its corpus is now, if it moved alone.

    Raises IndexFileError for an index that is incomplete, damaged, or belongs to another corpus.
    """
    made = manifest.load(folder)
    passages = Corpus.open(_source(made, folder, corpus), layout.offsets_path(folder))
    return PassageIndex(made, passages, _searcher(made, folder, passages), limits)


def describe(made: Manifest) -> IndexInfo:
    """What an index says about itself."""
    details = {
        "corpus": made.corpus.path,
        "shards": len(made.shards),
        "bytes": sum(facts.bytes for facts in made.files),
        **({"bm25": dict(made.bm25)} if made.bm25 is not None else {}),
        **({"dense": dict(made.dense[0])} if made.dense else {}),
    }
    return IndexInfo(made.kind, made.corpus.passages, made.fingerprint, details)


def _source(made: Manifest, folder: Path, corpus: Path | None) -> Path:
    if corpus is None:
        return made.corpus.find(folder)
    if not corpus.is_file() or not made.corpus.is_at(corpus):
        raise IndexFileError(
            f"the index {folder} belongs to another corpus than {corpus}; it was built for "
            f"{made.corpus.path} with {made.corpus.passages} passages"
        )
    return corpus


def _searcher(made: Manifest, folder: Path, corpus: Corpus) -> RowSearcher:
    ranges = [range(first, end) for first, end in made.shards]
    rankers: list[RowSearcher] = []
    if made.bm25 is not None:
        rankers.append(_together([_bm25(folder, *shard) for shard in enumerate(ranges)]))
    if made.dense:
        dense = [_dense(folder, number, rows, made, corpus) for number, rows in enumerate(ranges)]
        rankers.append(_together(dense))
    return rankers[0] if len(rankers) == 1 else _Fused(rankers)


def _together(searchers: Sequence[RowSearcher]) -> RowSearcher:
    return searchers[0] if len(searchers) == 1 else Shards(searchers)


def _bm25(folder: Path, number: int, rows: range) -> RowSearcher:
    from prompt_coevo.retrieval.bm25.index import Bm25Index

    return Bm25Index.open(layout.bm25_folder(folder, number), rows)


def _dense(folder: Path, number: int, rows: range, made: Manifest, corpus: Corpus) -> RowSearcher:
    from prompt_coevo.retrieval.dense.index import DenseIndex

    target = layout.dense_folder(folder, number)
    return DenseIndex.open(target, corpus, dict(made.dense[number]), rows)


class _Fused:
    """Two rankings made one."""

    def __init__(self, searchers: Sequence[RowSearcher]) -> None:
        self._searchers = searchers

    def search_rows(self, queries: Sequence[str], k: int) -> list[list[tuple[int, float]]]:
        from prompt_coevo.retrieval.index.hybrid import fuse

        depth = max(k, _FUSED_DEPTH)
        found = [searcher.search_rows(queries, depth) for searcher in self._searchers]
        return [fuse(rankings, k) for rankings in zip(*found, strict=True)]

    def close(self) -> None:
        for searcher in self._searchers:
            searcher.close()
