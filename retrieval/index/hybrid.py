"""The index kind "hybrid": bm25 and dense side by side, made one ranking by reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from prompt_coevo.retrieval.bm25.kind import BM25, check_analyzer
from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.dense.kind import DENSE, Dense
from prompt_coevo.retrieval.fusion import FUSED_DEPTH, reciprocal_ranks
from prompt_coevo.retrieval.kinds import Foreseen, IndexKind, Job, Request
from prompt_coevo.retrieval.shards import RowSearcher, Shard


class Hybrid(IndexKind):
    """Search by words and by vectors."""

    def __init__(self, dense: Dense = DENSE) -> None:
        self._dense = dense

    def on_gpus(self, gpus: str) -> Hybrid:
        """As IndexKind says."""
        return Hybrid(self._dense.on_gpus(gpus))

    def check(self, request: Request) -> None:
        """As IndexKind says."""
        DENSE.check(replace(request, analyzer=None, analyzer_options={}))
        check_analyzer(request)

    def foresee(self, request: Request, shards: Sequence[range]) -> Foreseen | None:
        """As IndexKind says: what is known of the vectors. That of the words is small beside it."""
        return DENSE.foresee(request, shards)

    def build(self, job: Job) -> dict[str, Any]:
        """As IndexKind says.

        The vectors come first: they take longest, and a build that is stopped later keeps them.
        """
        dense = DENSE.build(job)
        return {**BM25.build(job), **dense}

    def open(
        self, corpus: Corpus, shards: Sequence[Shard], details: Mapping[str, Any]
    ) -> RowSearcher:
        """As IndexKind says."""
        return _Fused([kind.open(corpus, shards, details) for kind in (BM25, self._dense)])

    def describe(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """As IndexKind says."""
        return {**BM25.describe(details), **DENSE.describe(details)}


HYBRID: Final = Hybrid()


class _Fused:
    """Two rankings made one."""

    def __init__(self, searchers: Sequence[RowSearcher]) -> None:
        self._searchers = searchers

    def search_rows(self, queries: Sequence[str], k: int) -> list[list[tuple[int, float]]]:
        depth = max(k, FUSED_DEPTH)
        found = [searcher.search_rows(queries, depth) for searcher in self._searchers]
        return [fuse(rankings, k) for rankings in zip(*found, strict=True)]

    def close(self) -> None:
        for searcher in self._searchers:
            searcher.close()


def fuse(rankings: Sequence[Sequence[tuple[int, float]]], k: int) -> list[tuple[int, float]]:
    """The best `k` rows of all rankings with their fused scores. Of equals the first row comes first."""
    fused = reciprocal_ranks([row for row, _ in ranking] for ranking in rankings)
    return sorted(fused.items(), key=lambda hit: (-hit[1], hit[0]))[:k]
