"""Settings that all searches for templates have: which questions are hard, and how often they ask."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Final, Literal

from pydantic import Field

from prompt_coevo.settings.section import Section

# Up to there a threshold above every reward is said, and may be meant: all questions are hard.
_TAU_MOST: Final = 2.0


class HardQuestionSettings(Section):
    """The settings that P2O and the stream share. Each has defaults of its own."""

    method: ClassVar[str]
    """Under which name they stand."""

    proposer: str = "propose_improvement"
    """The name of a registered proposer."""
    tau: float = 0.2
    """`τ` of eq. 4: a question is hard if its success is below it. At K = 6 the default means all fail, or
    one success, as the authors ran it."""
    solved_at: float = Field(default=1.0, gt=0.0)
    """The deciding reward from which a rollout succeeds (in P2O: `C(z)` of Algorithm 2)."""
    calls_per_hard: float | Literal["unlimited"] = 1.0
    """Reflection calls for every hard question, at most."""

    @property
    def bare_hardness(self) -> bool:
        """Whether the members without a template decide, so that what a template solves is not learnt."""
        return True

    def problems(self) -> Iterator[str]:
        if not self.tau > 0:
            yield f"{self.method}.tau must be greater than 0, else no question can be hard; for example 0.2"
        if self.tau > _TAU_MOST * self.solved_at:
            yield (
                f"{self.method}.tau = {self.tau:g} is so far above {self.method}.solved_at = "
                f"{self.solved_at:g} that every question would be hard for ever; set a share of it, for "
                "example 0.2"
            )
        if self.calls_per_hard != "unlimited" and not 0 < self.calls_per_hard < math.inf:
            yield f'{self.method}.calls_per_hard must be greater than 0 and finite, or "unlimited"'

    def calls_for(self, hard: int) -> float:
        """Return how many reflection calls so many hard questions may cost, at most."""
        limit = self.calls_per_hard
        return math.inf if limit == "unlimited" else math.ceil(limit * hard)
