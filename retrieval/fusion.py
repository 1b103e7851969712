"""Reciprocal rank fusion: of the parts of a "hybrid" index, and of any retrievers by the one of that name.

(Cormack, Clarke and Büttcher, SIGIR 2009.) A passage's score is the sum of 1 / (60 + rank) over the
rankings that have it. The rankings' own scores need not compare, since only the order counts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final, TypeVar

from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.named import open_retriever
from prompt_coevo.retrieval.retriever import (
    Hit,
    IndexInfo,
    Retriever,
    check_search,
    checked_info,
    checked_search,
    no_limits,
    shown,
)
from prompt_coevo.retrieval.shards import Ranking

Key = TypeVar("Key", bound=Hashable)

FUSED_DEPTH: Final = 100
"""How deep into each ranking is looked."""
_CONSTANT: Final = 60


def reciprocal_ranks(rankings: Iterable[Iterable[Key]]) -> dict[Key, float]:
    """The fused score of everything that is in a ranking; what comes twice in one counts once."""
    parts: dict[Key, list[float]] = {}
    for ranking in rankings:
        for rank, key in enumerate(dict.fromkeys(ranking), 1):
            parts.setdefault(key, []).append(1 / (_CONSTANT + rank))
    return {key: math.fsum(shares) for key, shares in parts.items()}


def fuse(rankings: Sequence[Ranking], k: int) -> Ranking:
    """The best `k` rows of all rankings with their fused scores. Of equals the first row comes first."""
    fused = reciprocal_ranks([row for row, _ in ranking] for ranking in rankings)
    return sorted(fused.items(), key=lambda hit: (-hit[1], hit[0]))[:k]


def hybrid(retrievers: Sequence[Mapping[str, Any]], depth: int = FUSED_DEPTH) -> HybridRetriever:
    """The retriever "hybrid": each of `retrievers` is a `name` and its `options`, as for a single one.

    They are asked for `depth` passages each, or k if that is more. Raises SettingsError for what cannot be
    opened; those that are open by then are closed.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise SettingsError(f"hybrid: depth must be a number from 1, but is {shown(depth)}")
    is_list = isinstance(retrievers, Sequence) and not isinstance(retrievers, str)
    if not is_list or len(retrievers) < 2:
        raise SettingsError(
            'hybrid: retrievers must be a list of two or more, each {"name": "...", "options": {...}}'
        )
    with ExitStack() as opened:
        made: list[Retriever] = []
        for number, one in enumerate(retrievers):
            name, options = _named(number, one)
            made.append(open_retriever(name, options, f"hybrid: retrievers[{number}]"))
            opened.callback(made[-1].close)
        opened.pop_all()
    return HybridRetriever(made, depth)


class HybridRetriever:
    """A Retriever that asks several, one after the other. Of equals the first one's come first.

    Two of their hits are the same passage if id and contents are.
    """

    def __init__(self, retrievers: Sequence[Retriever], depth: int = FUSED_DEPTH) -> None:
        self._retrievers = retrievers
        self._depth = depth

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """As Retriever says. An outage of one of them is an outage."""
        check_search(queries, k, no_limits())
        depth = max(k, self._depth)
        found = [checked_search(retriever, queries, depth) for retriever in self._retrievers]
        return [_fused(rankings, k) for rankings in zip(*found, strict=True)]

    def info(self) -> IndexInfo:
        """As Retriever says; without a fingerprint if one of them has none."""
        infos = [checked_info(retriever) for retriever in self._retrievers]
        known = all(info.fingerprint for info in infos)
        told = repr([self._depth, *(info.fingerprint for info in infos)])
        return IndexInfo(
            "hybrid",
            max(info.passages for info in infos),
            hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:32]
            if known
            else "",
            {"retrievers": [info.kind for info in infos], "depth": self._depth},
        )

    def close(self) -> None:
        """As Retriever says; all of them, whatever one raises."""
        with ExitStack() as stack:
            for retriever in self._retrievers:
                stack.callback(retriever.close)


def _fused(rankings: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    passages: dict[tuple[str, str], Hit] = {}
    for ranking in rankings:
        for hit in ranking:
            passages.setdefault((hit.id, hit.contents), hit)
    scores = reciprocal_ranks([(hit.id, hit.contents) for hit in ranking] for ranking in rankings)
    best = sorted(scores, key=lambda key: -scores[key])[:k]
    return [
        replace(passages[key], score=scores[key], rank=rank) for rank, key in enumerate(best, 1)
    ]


def _named(number: int, one: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(one, Mapping) or not set(one) <= {"name", "options"}:
        raise SettingsError(
            f'hybrid: retrievers[{number}] must be {{"name": "...", "options": {{...}}}}, but is '
            f"{one!r:.80}"
        )
    name, options = one.get("name"), one.get("options") or {}
    if not isinstance(name, str) or not isinstance(options, Mapping):
        raise SettingsError(
            f"hybrid: retrievers[{number}] needs a name, a text, and options, names with values"
        )
    return name, options
