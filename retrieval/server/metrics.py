"""The server's counters, in Prometheus' format."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from prompt_coevo.retrieval.errors import QueryError
from prompt_coevo.retrieval.outcomes import Attempt, PartialHits

_PREFIX = "prompt_coevo_retrieval"
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0)


class Histogram:
    """Counts of values up to each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> list[str]:
        bounds = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        totals = list(accumulate(self._counts))
        buckets = [
            f'{name}_bucket{{le="{bound}"}} {total}'
            for bound, total in zip(bounds, totals, strict=True)
        ]
        return [*buckets, f"{name}_sum {self._sum:.6f}", f"{name}_count {totals[-1]}"]


class Metrics:
    """All counters. They belong to the event loop's thread."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.queries = self.refused_queries = self.failed_queries = self.cut_queries = 0
        self.partial_queries = 0
        self.batch_queries = Histogram(_SIZES)
        self.request_seconds = Histogram(_SECONDS)

    def count(self, attempts: Sequence[Attempt]) -> None:
        """Count the results of a request's queries."""
        answered = sum(isinstance(attempt, list) for attempt in attempts)
        self.queries += answered
        self.partial_queries += sum(isinstance(attempt, PartialHits) for attempt in attempts)
        if answered < len(attempts):
            refused = sum(isinstance(attempt, QueryError) for attempt in attempts)
            self.refused_queries += refused
            self.failed_queries += len(attempts) - answered - refused

    def text(self, *, waiting: int) -> str:
        """Return Prometheus' text format, version 0.0.4."""
        lines: list[str] = []

        def add(name: str, kind: str, about: str, *values: str) -> None:
            lines.extend((f"# HELP {name} {about}", f"# TYPE {name} {kind}", *values))

        name = f"{_PREFIX}_requests_total"
        replies = [f'{name}{{status="{code}"}} {n}' for code, n in sorted(self.requests.items())]
        add(name, "counter", "Replies to /retrieve, and to who was turned away.", *replies)
        for told, about, number in (
            ("queries", "Queries answered.", self.queries),
            ("refused_queries", "Queries that cannot be searched for.", self.refused_queries),
            ("failed_queries", "Queries for which the search failed.", self.failed_queries),
            ("partial_queries", "Queries that not all shards answered.", self.partial_queries),
            ("cut_queries", "Queries that were too long.", self.cut_queries),
        ):
            name = f"{_PREFIX}_{told}_total"
            add(name, "counter", about, f"{name} {number}")
        for told, about, histogram in (
            ("batch_queries", "Queries per search.", self.batch_queries),
            ("request_seconds", "Time per request.", self.request_seconds),
        ):
            name = f"{_PREFIX}_{told}"
            add(name, "histogram", about, *histogram.lines(name))
        name = f"{_PREFIX}_waiting_queries"
        add(name, "gauge", "Queries that wait for a search.", f"{name} {waiting}")
        name = "process_cpu_seconds_total"
        add(name, "counter", "CPU time of this process.", f"{name} {time.process_time():.6f}")
        return "\n".join(lines) + "\n"
