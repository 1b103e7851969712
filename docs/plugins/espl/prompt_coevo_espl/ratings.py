"""Rate a prompt by its matches against others: a Gaussian (mu, sigma).

The authors rate with TrueSkill; here it is openskill's Plackett-Luce model (Weng and Lin, JMLR 2011), which
has the same numbers to start from (mu 25, sigma 25/3, beta 25/6, tau 25/300) and a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from openskill.models import PlackettLuce

_MODEL: Final = PlackettLuce()
_BOUND: Final = 2.0


@dataclass(frozen=True)
class Rating:
    """The belief about a prompt's strength."""

    mu: float = 25.0
    sigma: float = 25.0 / 3.0

    @property
    def lower(self) -> float:
        """Return a lower bound that it is hardly below."""
        return self.mu - _BOUND * self.sigma

    @property
    def upper(self) -> float:
        """Return an upper bound that it is hardly above."""
        return self.mu + _BOUND * self.sigma


def after_match(
    ratings: Sequence[Rating], scores: Sequence[float], tie: float = 0.0
) -> list[Rating]:
    """Return the ratings after one match of two or more prompts, in their order.

    Scores within `tie` of the next better one share its rank. A match in which all share one rank says
    nothing and changes nothing: on a question that no prompt solves, a tie does not mean equal strength.
    """
    ranks = _ranks(scores, tie)
    if len(set(ranks)) < 2:
        return list(ratings)
    players = [[_MODEL.rating(mu=one.mu, sigma=one.sigma)] for one in ratings]
    rated = _MODEL.rate(players, ranks=[float(rank) for rank in ranks])
    return [Rating(float(player.mu), float(player.sigma)) for (player,) in rated]


def of_child(parents: Sequence[Rating], child_sigma: float) -> Rating:
    """Return a child's rating before its first match.

    The mean of its parents, weighted by how sure their ratings are, and less sure by `child_sigma`.
    """
    precisions = [1.0 / one.sigma**2 for one in parents]
    total = math.fsum(precisions)
    mu = math.fsum(one.mu * weight for one, weight in zip(parents, precisions, strict=True)) / total
    return Rating(mu, math.sqrt(1.0 / total + child_sigma**2))


def _ranks(scores: Sequence[float], tie: float) -> list[int]:
    """Rank scores, 0 for the best; neighbours within `tie` share a rank."""
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    ranks = [0] * len(scores)
    for better, place in pairwise(order):
        ranks[place] = ranks[better] + (scores[better] - scores[place] > tie)
    return ranks
