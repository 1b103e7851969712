"""The index kind "bm25": a folder `bm25` in each shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.kinds import IndexKind, Job, Request
from prompt_coevo.retrieval.shards import RowSearcher, Shard, together

_NAME = "bm25"


class Bm25(IndexKind):
    """Search by words."""

    def check(self, request: Request) -> None:
        """As IndexKind says."""
        super().check(replace(request, analyzer=None, analyzer_options={}))
        check_analyzer(request)

    def build(self, job: Job) -> dict[str, Any]:
        """As IndexKind says."""
        from prompt_coevo.retrieval.bm25.build import build_bm25
        from prompt_coevo.retrieval.bm25.recorded import chosen

        analyzer, entry = chosen(job.request.analyzer, job.request.analyzer_options)
        parts = [_own(shard) for shard in job.shards]
        built = build_bm25(job.corpus, parts, job.work, job.stages("building bm25"), analyzer)
        return {_NAME: {**built, "analyzer": entry}}

    def open(
        self, corpus: Corpus, shards: Sequence[Shard], details: Mapping[str, Any]
    ) -> RowSearcher:
        """As IndexKind says."""
        from prompt_coevo.retrieval.bm25.index import Bm25Index
        from prompt_coevo.retrieval.bm25.recorded import of_manifest

        analyzer = of_manifest(dict(details[_NAME]).get("analyzer"))
        parts = [_own(shard) for shard in shards]
        return together([Bm25Index.open(part.folder, part.rows, analyzer) for part in parts])

    def describe(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """As IndexKind says."""
        return {_NAME: dict(details[_NAME])}


def check_analyzer(request: Request) -> None:
    """Raise what `recorded.chosen` raises, before a large corpus is read."""
    from prompt_coevo.retrieval.bm25.recorded import chosen

    chosen(request.analyzer, request.analyzer_options)


def _own(shard: Shard) -> Shard:
    return shard._replace(folder=shard.folder / _NAME)


BM25: Final = Bm25()
