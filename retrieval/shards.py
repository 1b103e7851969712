"""The shards of an index, each a range of the corpus's rows, and their joint search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

Ranking: TypeAlias = list[tuple[int, float]]
"""Rows of the corpus and their scores, best first."""


class Shard(NamedTuple):
    """A range of rows of the corpus, and the folder for its files."""

    folder: Path
    rows: range


@dataclass(frozen=True)
class ShardOf:
    """Names a shard that is searched alone: shard `number` (from 1) `of` so many of an index.

    `index` is the fingerprint of the whole index, `passages` their number in it.
    """

    index: str
    number: int
    of: int
    passages: int

    @property
    def fingerprint(self) -> str:
        """Return the shard's own fingerprint."""
        return f"{self.index}.{self.number}of{self.of}"

    def details(self) -> dict[str, Any]:
        """Return an entry for `IndexInfo.details`."""
        return {"shard": asdict(self)}

    @classmethod
    def read(cls, details: Mapping[str, Any]) -> ShardOf | None:
        """Read the entry, perhaps another machine's; None if there is none."""
        given = details.get("shard")
        if not isinstance(given, dict) or {name: type(one) for name, one in given.items()} != {
            "index": str,
            "number": int,
            "of": int,
            "passages": int,
        }:
            return None
        return cls(**given)


class RowSearcher(Protocol):
    """Finds rows of the corpus."""

    def search_rows(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return for each query at most `k` rows of the whole corpus and their scores, best first."""
        ...

    def close(self) -> None: ...


def merged(rankings: Sequence[Ranking], k: int) -> Ranking:
    """Return the best `k` of rankings whose scores compare. Among equal scores the first row comes
    first."""
    every = [hit for ranking in rankings for hit in ranking]
    return sorted(every, key=lambda hit: (-hit[1], hit[0]))[:k]


class Joined:
    """A RowSearcher that asks several others for at least `depth` rows each and joins their rankings."""

    def __init__(
        self,
        searchers: Sequence[RowSearcher],
        join: Callable[[Sequence[Ranking], int], Ranking] = merged,
        depth: int = 0,
    ) -> None:
        self._searchers, self._join, self._depth = searchers, join, depth

    def search_rows(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Search, as `RowSearcher.search_rows`."""
        most = max(k, self._depth)
        found = [searcher.search_rows(queries, most) for searcher in self._searchers]
        return [self._join(rankings, k) for rankings in zip(*found, strict=True)]

    def close(self) -> None:
        """Close them all."""
        for searcher in self._searchers:
            searcher.close()


def together(searchers: Sequence[RowSearcher]) -> RowSearcher:
    """Return one searcher for all shards, whose scores must compare."""
    return searchers[0] if len(searchers) == 1 else Joined(searchers)
