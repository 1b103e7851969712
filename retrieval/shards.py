"""The shards of an index, each a range of the corpus's rows, and searching them as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

Ranking: TypeAlias = list[tuple[int, float]]
"""Rows of the corpus and their scores, the best first."""


class Shard(NamedTuple):
    """Some rows of the corpus, and the folder for what belongs to them."""

    folder: Path
    rows: range


class RowSearcher(Protocol):
    """Finds rows of the corpus."""

    def search_rows(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """For each query at most `k` rows of the whole corpus and their scores, the best first."""
        ...

    def close(self) -> None: ...


def merged(rankings: Sequence[Ranking], k: int) -> Ranking:
    """The best `k` of rankings whose scores compare. Of equal scores the first row comes first."""
    every = [hit for ranking in rankings for hit in ranking]
    return sorted(every, key=lambda hit: (-hit[1], hit[0]))[:k]


class Joined:
    """A RowSearcher that asks several and joins their rankings, `depth` rows of each or more."""

    def __init__(
        self,
        searchers: Sequence[RowSearcher],
        join: Callable[[Sequence[Ranking], int], Ranking] = merged,
        depth: int = 0,
    ) -> None:
        self._searchers, self._join, self._depth = searchers, join, depth

    def search_rows(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """As RowSearcher says."""
        most = max(k, self._depth)
        found = [searcher.search_rows(queries, most) for searcher in self._searchers]
        return [self._join(rankings, k) for rankings in zip(*found, strict=True)]

    def close(self) -> None:
        """Close them all."""
        for searcher in self._searchers:
            searcher.close()


def together(searchers: Sequence[RowSearcher]) -> RowSearcher:
    """One searcher of all shards, whose scores must compare."""
    return searchers[0] if len(searchers) == 1 else Joined(searchers)
