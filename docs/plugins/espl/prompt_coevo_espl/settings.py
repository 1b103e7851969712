"""Define the section `espl`. The defaults are those of the authors' runs with mutation and crossover."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from prompt_coevo import Section


class EsplSettings(Section):
    """E-SPL (arXiv 2602.14697)."""

    instruction: str | None = Field(default=None, min_length=1)
    """The instruction to start from. Default: the system message that all questions share."""
    population_size: int = Field(default=10, ge=2)
    """Prompts that are kept; a newcomer takes the place of the one of the lowest upper bound."""
    at_once: int = Field(default=3, ge=2)
    """Prompts that are compared in one round: each group's rollouts are dealt out to them."""
    selection: Literal["bounds", "posterior"] = "bounds"
    """Which: the highest lower bound, the highest upper bounds and the newest (the authors' "lucb"), or
    the highest draws from the ratings."""
    matches: Literal["question", "round"] = "question"
    """What a match is: one question's rollouts, or the means over a round (the authors' code)."""
    tie: float = Field(default=0.01, ge=0.0)
    """Scores that differ by no more are equal."""
    evolve_every: int = Field(default=1, ge=1)
    """A child every so many steps that used a new round."""
    evolve_until: int | None = Field(default=None, ge=1)
    """The last child is born before this step; None: there is none."""
    mutation: str = "reflection"
    """The name of the proposer that rewrites one parent, given failures under it."""
    crossover: str = "espl_crossover"
    """The name of the proposer that joins two parents."""
    crossover_share: float = Field(default=0.2, ge=0.0, le=1.0)
    """The chance that an evolution makes a child of two parents, too."""
    failures_per_reflection: int = Field(default=4, ge=1)
    """Failing trajectories that one call of a proposer gets."""
    child_sigma: float = Field(default=1.0, ge=0.0)
    """How much less sure a child's rating is than its parents': added in squares."""
    solved_at: float = Field(default=1.0, gt=0.0)
    """A reward below this is a failure."""
    validation_instruction: Literal["best", "none"] = "best"
    """What the host's evaluation runs under."""

    def problems(self) -> Iterator[str]:
        if self.at_once > self.population_size:
            yield (
                f"plugins.espl.at_once = {self.at_once} cannot be greater than "
                f"plugins.espl.population_size = {self.population_size}"
            )
        if "crossover" in self.model_fields_set and not self.crossover_share:
            yield "plugins.espl.crossover has no effect with plugins.espl.crossover_share = 0; leave it out"
