"""Reciprocal rank fusion, which joins the two parts of a "hybrid" index.

(Cormack, Clarke and Büttcher, SIGIR 2009.) A row's score is the sum of 1 / (60 + rank) over the rankings
that contain it. Scores of different rankings need not be comparable, since only the order counts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

from prompt_coevo.retrieval.shards import Ranking

Key = TypeVar("Key", bound=Hashable)

FUSED_DEPTH: Final = 100
"""Depth to which each ranking is fused."""
_CONSTANT: Final = 60


def reciprocal_ranks(rankings: Iterable[Iterable[Key]]) -> dict[Key, float]:
    """Return the fused score of every key in any ranking; a duplicate in one ranking counts once."""
    parts: dict[Key, list[float]] = {}
    for ranking in rankings:
        for rank, key in enumerate(dict.fromkeys(ranking), 1):
            parts.setdefault(key, []).append(1 / (_CONSTANT + rank))
    return {key: math.fsum(shares) for key, shares in parts.items()}


def fuse(rankings: Sequence[Ranking], k: int) -> Ranking:
    """Return the best `k` rows of all rankings with their fused scores. Among equals the first row comes
    first."""
    fused = reciprocal_ranks([row for row, _ in ranking] for ranking in rankings)
    return sorted(fused.items(), key=lambda hit: (-hit[1], hit[0]))[:k]
