"""Implement BM25 in plain Python, for the few passages of a test."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from prompt_coevo.retrieval.retriever import Hit, IndexInfo, check_search

_K1, _B = 1.5, 0.75


class WordIndex:
    """A `Retriever` over passages in Search-R1's form."""

    def __init__(self, passages: Iterable[Mapping[str, str]]) -> None:
        self._passages = list(passages)
        counts = [Counter(_words(passage["contents"])) for passage in self._passages]
        mean = sum(map(Counter.total, counts)) / len(counts)
        self._weights: dict[str, dict[int, float]] = {}
        for row, count in enumerate(counts):
            norm = _K1 * (1 - _B + _B * count.total() / mean)
            for word, times in count.items():
                self._weights.setdefault(word, {})[row] = times / (times + norm)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        check_search(queries, k)
        return [self._search(query, k) for query in queries]

    def info(self) -> IndexInfo:
        return IndexInfo("words", len(self._passages), "test")

    def close(self) -> None:
        pass

    def _search(self, query: str, k: int) -> list[Hit]:
        scores: Counter[int] = Counter()
        for word in _words(query):
            rows = self._weights.get(word, {})
            idf = math.log(1 + (len(self._passages) - len(rows) + 0.5) / (len(rows) + 0.5))
            for row, weight in rows.items():
                scores[row] += idf * weight
        best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
        return [
            Hit(self._passages[row]["id"], self._passages[row]["contents"], score, rank)
            for rank, (row, score) in enumerate(best, start=1)
        ]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
