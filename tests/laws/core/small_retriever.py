"""A small retriever that obeys the laws: passages with most of the query's words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, check_search


@dataclass
class Backend:
    """A backend that may be down."""

    passages: Sequence[tuple[str, str]]
    up: bool = True
    words: list[set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.words = [set(re.findall(r"\w+", contents.lower())) for _, contents in self.passages]


class Small:
    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        check_search(queries, k)
        self.connect()
        return [self.hits(self.rows(query, k), query) for query in queries]

    def info(self) -> IndexInfo:
        self.connect()
        digest = hashlib.sha256(repr(self.backend.passages).encode()).hexdigest()
        return IndexInfo("small", len(self.backend.passages), digest)

    def close(self) -> None: ...

    def connect(self) -> None:
        if not self.backend.up:
            raise RetrieverUnavailable("the backend is down; start it again")

    def rows(self, query: str, k: int) -> list[int]:
        found = [row for row in range(len(self.backend.words)) if self.score(row, query)]
        return sorted(found, key=lambda row: (-self.score(row, query), row))[:k]

    def score(self, row: int, query: str) -> float:
        asked, known = set(re.findall(r"\w+", query.lower())), self.backend.words[row]
        return len(asked & known) / (1 + len(known))

    def hits(self, rows: Sequence[int], query: str) -> list[Hit]:
        return [
            Hit(*self.backend.passages[row], self.score(row, query), rank)
            for rank, row in enumerate(rows, 1)
        ]
