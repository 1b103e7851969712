"""How much of a reward is the question's: the adjustment by a covariate (analysis of covariance)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from math import fsum
from typing import TypeAlias

Measured: TypeAlias = tuple[str, int, float | None, float]
"""What was measured under, the block, what the question scored before if that is known, the reward."""


class Handicap:
    """What a question's earlier score makes one expect of its reward, beside an average question.

    The slope of rewards over earlier scores is a regression's within what was measured under and within
    blocks, so that neither better instructions nor better weights count as easier questions. It is
    between 0 (earlier scores say nothing) and 1 (questions score as before).
    """

    def __init__(self, measured: Sequence[Measured]) -> None:
        known = [
            (name, block, before, reward)
            for name, block, before, reward in measured
            if before is not None
        ]
        earlier = [before for _, _, before, _ in known]
        self._average = fsum(earlier) / len(earlier) if earlier else 0.0
        names, blocks = [entry[0] for entry in known], [entry[1] for entry in known]
        x = _centred(_centred(earlier, names), blocks)
        y = _centred(_centred([entry[3] for entry in known], names), blocks)
        spread = fsum(value * value for value in x)
        together = fsum(a * b for a, b in zip(x, y, strict=True))
        self.slope = min(1.0, max(0.0, together / spread)) if spread > 1e-9 else 0.0

    def of(self, before: float | None) -> float:
        """A question of unknown score counts as an average one."""
        return 0.0 if before is None else self.slope * (before - self._average)


def _centred(values: Sequence[float], classes: Sequence[Hashable]) -> list[float]:
    """Every value less the mean of its class."""
    members: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, one in zip(values, classes, strict=True):
        members[one].append(value)
    means = {one: fsum(found) / len(found) for one, found in members.items()}
    return [value - means[one] for value, one in zip(values, classes, strict=True)]
