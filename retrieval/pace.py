"""How many queries a search may have so that its answers arrive in time."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from prompt_coevo.retrieval.retriever import Hit

# How much of what was learned is kept at each search, and how much of the time left is planned with.
_MEMORY: Final = 0.7
_SHARE: Final = 0.7
# A query's cost as a fraction of a search's time; half of it while the two costs cannot be separated.
_UNKNOWN_PART: Final = 0.5
_SMALLEST_PART: Final = 0.02
_LATE_KEPT: Final = 16_384
_LATE_FOR_S: Final = 60.0


class Waiting(NamedTuple):
    """A waiting caller: the seconds left, out of those it had."""

    left_s: float
    patience_s: float


class Room(NamedTuple):
    """The number of queries that there is time for. A caller with less than `least_s` left would get no
    answer."""

    queries: int
    least_s: float


class Pace:
    """Learns the cost of a search and of each query in it, as decaying means.

    It fits a line through the latest searches: `fixed` seconds, plus `each` per query.
    """

    def __init__(self) -> None:
        self._searches = self._queries = self._seconds = 0.0
        self._squares = self._products = 0.0

    def learn(self, queries: int, seconds: float) -> None:
        """Record that a search with so many queries took so long."""
        if queries:
            self._searches = self._searches * _MEMORY + 1
            self._queries = self._queries * _MEMORY + queries
            self._seconds = self._seconds * _MEMORY + seconds
            self._squares = self._squares * _MEMORY + queries * queries
            self._products = self._products * _MEMORY + queries * seconds

    def costs(self) -> tuple[float, float]:
        """Return the `fixed` seconds and those for `each` query; 0.0 if nothing is known."""
        if not self._seconds:
            return 0.0, 0.0
        queries, seconds = self._queries / self._searches, self._seconds / self._searches
        at_most = seconds / queries
        each = at_most * _UNKNOWN_PART
        if self._tells_apart():
            variance = self._squares / self._searches - queries**2
            slope = (self._products / self._searches - queries * seconds) / variance
            each = min(at_most, max(at_most * _SMALLEST_PART, slope))
        return seconds - each * queries, each

    def _tells_apart(self) -> bool:
        """Return True if the searches had different numbers of queries."""
        return self._squares * self._searches > (1 + 1e-3) * self._queries**2

    def room(self, most: int, waiting: Sequence[Waiting]) -> Room:
        """Return what fits into the time of the least patient caller, at least one query.

        A caller that has used up half of its patience does not count if there are others. Under overload
        some callers are always about to give up; for their sake all queries would be searched one by one,
        which costs the most.
        """
        fixed, each = self.costs()
        if not each:
            return Room(most, -math.inf)
        longest = max(one.left_s for one in waiting)
        fresh = [one.left_s for one in waiting if one.left_s >= one.patience_s / 2]
        if fixed + each > longest:
            # Nobody will still wait for the answer, but whoever asks again gets it. If a search with many
            # queries takes hardly longer than one with a single query, many should be in it.
            return Room(min(most, 1 + int(fixed / each)) if self._tells_apart() else 1, -math.inf)
        fitting = (min(fresh, default=longest) * _SHARE - fixed) / each
        queries = int(max(1, min(most, fitting)))
        return Room(queries, min(fixed + each * queries, longest))


class LateAnswers:
    """Hits that arrived after all callers had given up, kept in case one asks again.

    If a single search takes longer than clients wait, only this gives them an answer. Times are seconds of
    any one clock.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], tuple[float, list[Hit]]] = OrderedDict()

    def keep(self, query: str, k: int, hits: list[Hit], now: float) -> None:
        """Keep hits for a minute, among the latest 16 384."""
        self._kept[query, k] = (now + _LATE_FOR_S, hits)
        self._kept.move_to_end((query, k))
        while len(self._kept) > _LATE_KEPT:
            self._kept.popitem(last=False)

    def take(self, query: str, k: int, now: float) -> list[Hit] | None:
        """Return the hits and forget them."""
        until, hits = self._kept.pop((query, k), (0.0, None))
        return hits if now < until else None
