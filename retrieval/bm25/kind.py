"""The index kind "bm25": a folder `bm25` in each shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.kinds import IndexKind, Job
from prompt_coevo.retrieval.shards import RowSearcher, Shard, together

_NAME = "bm25"


class Bm25(IndexKind):
    """Search by words."""

    def build(self, job: Job) -> dict[str, Any]:
        """As IndexKind says."""
        from prompt_coevo.retrieval.bm25.build import build_bm25

        parts = [_own(shard) for shard in job.shards]
        return {_NAME: build_bm25(job.corpus, parts, job.work, job.stages("building bm25"))}

    def open(
        self, corpus: Corpus, shards: Sequence[Shard], details: Mapping[str, Any]
    ) -> RowSearcher:
        """As IndexKind says."""
        from prompt_coevo.retrieval.bm25.index import Bm25Index

        parts = [_own(shard) for shard in shards]
        return together([Bm25Index.open(part.folder, part.rows) for part in parts])

    def describe(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """As IndexKind says."""
        return {_NAME: dict(details[_NAME])}


def _own(shard: Shard) -> Shard:
    return shard._replace(folder=shard.folder / _NAME)


BM25: Final = Bm25()
