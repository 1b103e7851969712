"""Settings shared by all searches for templates: which questions are hard, how many calls they may cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Final, Literal

from pydantic import Field

from prompt_coevo.settings.section import Section
from prompt_coevo.thresholds import in_single_precision

# A threshold above every reward only gets a warning up to this, as it may be meant: all are hard.
_TAU_MOST: Final = 2.0


class HardQuestionSettings(Section):
    """The settings that P2O and the stream share. Each method sets its own defaults."""

    method: ClassVar[str]
    """The name of the settings section."""

    proposer: str = "propose_improvement"
    """Name of a registered proposer."""
    tau: float = 0.2
    """`τ` of eq. 4: a question is hard if its success is below this. With K = 6 the default means that all
    rollouts failed, or all but one, as the authors ran it."""
    solved_at: float = Field(default=1.0, gt=0.0)
    """Deciding reward from which a rollout counts as a success (in P2O: `C(z)` of Algorithm 2)."""
    calls_per_hard: float | Literal["unlimited"] = 1.0
    """Reflection calls for every hard question, at most."""

    @property
    def solved_from(self) -> float:
        """The least reward that is a success, also where rewards are in single precision."""
        return in_single_precision(self.solved_at)

    @property
    def bare_hardness(self) -> bool:
        """True if only rollouts without a template decide: solving with a template is not yet learning."""
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
        """Return how many reflection calls this many hard questions may cost, at most."""
        limit = self.calls_per_hard
        return math.inf if limit == "unlimited" else math.ceil(limit * hard)
