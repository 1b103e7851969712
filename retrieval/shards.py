"""The shards of an index, each a range of the corpus's rows, and searching them as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Shard(NamedTuple):
    """Some rows of the corpus, and the folder for what belongs to them."""

    folder: Path
    rows: range


class RowSearcher(Protocol):
    """Finds rows of the corpus."""

    def search_rows(self, queries: Sequence[str], k: int) -> list[list[tuple[int, float]]]:
        """For each query at most `k` rows of the whole corpus and their scores, the best first."""
        ...

    def close(self) -> None: ...


class Shards:
    """The best of what several searchers find. Of equal scores the first row comes first."""

    def __init__(self, searchers: Sequence[RowSearcher]) -> None:
        self._searchers = searchers

    def search_rows(self, queries: Sequence[str], k: int) -> list[list[tuple[int, float]]]:
        """As RowSearcher says."""
        found = [searcher.search_rows(queries, k) for searcher in self._searchers]
        return [merged(rankings, k) for rankings in zip(*found, strict=True)]

    def close(self) -> None:
        """Close them all."""
        for searcher in self._searchers:
            searcher.close()


def together(searchers: Sequence[RowSearcher]) -> RowSearcher:
    """One searcher of all shards, whose scores must compare."""
    return searchers[0] if len(searchers) == 1 else Shards(searchers)


def merged(rankings: Sequence[Sequence[tuple[int, float]]], k: int) -> list[tuple[int, float]]:
    """The best `k` of rankings whose scores compare."""
    every = [hit for ranking in rankings for hit in ranking]
    return sorted(every, key=lambda hit: (-hit[1], hit[0]))[:k]
