"""One ranking from several, by reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).

A passage's score is the sum of 1 / (60 + rank) over the rankings that have it. The rankings' own scores
need not compare, since only the order counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_CONSTANT = 60


def fuse(rankings: Sequence[Sequence[tuple[int, float]]], k: int) -> list[tuple[int, float]]:
    """The best `k` rows of all rankings with their fused scores. Of equals the first row comes first."""
    parts: dict[int, list[float]] = {}
    for ranking in rankings:
        for rank, row in enumerate(dict.fromkeys(row for row, _ in ranking), 1):
            parts.setdefault(row, []).append(1 / (_CONSTANT + rank))
    fused = [(row, math.fsum(shares)) for row, shares in parts.items()]
    return sorted(fused, key=lambda hit: (-hit[1], hit[0]))[:k]
