"""Plant faults of retrievers, each into a copy of `small_retriever.Small`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from laws.core.mutant import Mutant, planter
from laws.core.small_retriever import Backend, Small
from prompt_coevo.retrieval.retriever import Hit, IndexInfo

MUTANTS: list[Mutant] = []
plant = planter(MUTANTS)


@plant(
    "sorted-for-the-encoder",
    "Queries are sorted by length; the hits come back in that order.",
    "a_batch_is_answered_as_its_queries_alone",
)
class SortedForTheEncoder(Small):
    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return super().search(sorted(queries, key=len) if isinstance(queries, list) else queries, k)


@plant(
    "asked-once",
    "A query that comes twice is answered once.",
    "a_batch_is_answered_as_its_queries_alone",
)
class AskedOnce(Small):
    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return super().search(
            list(dict.fromkeys(queries)) if isinstance(queries, list) else queries, k
        )


@plant(
    "queries-sorted-in-place",
    "The caller's list of queries is sorted.",
    "the_callers_lists_are_its_own",
)
class QueriesSortedInPlace(Small):
    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        found = super().search(queries, k)
        queries.sort(key=len)  # type: ignore[attr-defined]
        return found


@plant(
    "padded-with-the-last",
    "Where fewer than k passages are found, the last one of the corpus fills up.",
    "more_passages_than_there_are_cannot_be_found",
)
class PaddedWithTheLast(Small):
    def rows(self, query: str, k: int) -> list[int]:
        found = super().rows(query, k)
        return found + [-1] * (k - len(found))


@plant(
    "outage-is-no-hits",
    "An outage comes back as nothing found; so does a query that must be refused.",
    "an_outage_is_told_and_passes",
)
class OutageIsNoHits(Small):
    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        try:
            return super().search(queries, k)
        except Exception:
            return [[] for _ in queries]


@plant(
    "outage-with-another-name",
    "An outage is raised as an error of the backend's own.",
    "an_outage_is_told_and_passes",
)
class OutageWithAnotherName(Small):
    def connect(self) -> None:
        if not self.backend.up:
            raise ConnectionError("refused")


@plant(
    "outage-remembered",
    "After one outage the retriever is down for good.",
    "an_outage_is_told_and_passes",
)
class OutageRemembered(Small):
    gone = False

    def connect(self) -> None:
        self.gone = self.gone or not self.backend.up
        if self.gone:
            self.backend = replace(self.backend, up=False)
        super().connect()


@plant(
    "info-remembered",
    "`info` answers from memory while the backend is down.",
    "an_outage_is_told_and_passes",
)
class InfoRemembered(Small):
    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.told = super().info()

    def info(self) -> IndexInfo:
        return self.told


@plant(
    "last-of-equals",
    "Of equal passages the last row comes first.",
    "of_equal_passages_the_first_row_comes_first",
)
class LastOfEquals(Small):
    def rows(self, query: str, k: int) -> list[int]:
        found = [row for row in range(len(self.backend.words)) if self.score(row, query)]
        return sorted(found, key=lambda row: (-self.score(row, query), -row))[:k]


@plant(
    "one-query-at-a-time",
    "Threads that search at the same time get each other's hits.",
    "threads_do_not_mix",
)
class OneQueryAtATime(Small):
    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.asked = queries
        time.sleep(0.001)
        return super().search(self.asked, k)


@plant(
    "ranks-from-zero",
    "Ranks begin at 0.",
    "hits_are_ranked",
)
class RanksFromZero(Small):
    def hits(self, rows: Sequence[int], query: str) -> list[Hit]:
        return [replace(hit, rank=hit.rank - 1) for hit in super().hits(rows, query)]


@plant(
    "distances",
    "Scores are distances: the best passage has the lowest.",
    "hits_are_ranked",
)
class Distances(Small):
    def hits(self, rows: Sequence[int], query: str) -> list[Hit]:
        return [replace(hit, score=1 - hit.score) for hit in super().hits(rows, query)]


@plant(
    "anything-goes",
    "What must be refused is searched for.",
    "what_cannot_be_asked_is_refused",
)
class AnythingGoes(Small):
    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.connect()
        return [self.hits(self.rows(str(query), int(k)), str(query)) for query in queries]


@plant(
    "same-fingerprint",
    "The fingerprint says nothing about the corpus.",
    "info_says_what_is_searched",
)
class SameFingerprint(Small):
    def info(self) -> IndexInfo:
        return replace(super().info(), fingerprint="small-1")


@plant(
    "list-given-twice",
    "The same list of hits is given to two callers.",
    "the_callers_lists_are_its_own",
)
class ListGivenTwice(Small):
    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.known: dict[tuple[str, int], list[Hit]] = {}

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        for query, hits in zip(queries, super().search(queries, k), strict=True):
            self.known.setdefault((query, k), hits)
        return [self.known[query, k] for query in queries]
