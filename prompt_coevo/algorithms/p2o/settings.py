"""The section `p2o`. The defaults are the paper's values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from pydantic import Field, field_validator

from prompt_coevo.algorithms.hard_questions.settings import HardQuestionSettings

Hardness: TypeAlias = Literal["literal", "bare"]
Overspend: TypeAlias = Literal["never", "literal"]
Every: TypeAlias = Literal["epoch"] | int


class P2OSettings(HardQuestionSettings):
    """P2O (arXiv 2603.21877): a search for templates between epochs."""

    may_change = frozenset({"search_budget", "calls_per_hard"})
    method = "p2o"

    hardness: Hardness = "literal"
    """`literal`: judge a question by its whole group, as in eq. 4. `bare`: only by rollouts without a
    template, so that solving with a template does not count as learned."""
    search_every: Every = "epoch"
    """When to search: at the end of every epoch (Algorithm 1), or every so many weight updates."""
    search_budget: int = Field(default=11_000, ge=1)
    """`C_total` of Algorithm 3: policy rollouts per search (the authors' number)."""
    overspend: Overspend = "literal"
    """`literal`: test the budget between waves, as in the paper. `never`: a wave holds only what the budget
    can pay in full."""
    beam_width: int = Field(default=16, ge=1)
    """`W` of Algorithm 4."""
    front_fill: bool = False
    """Fill a front smaller than `W` with further proposals from the same parents (not in the paper)."""
    minibatch_size: int = Field(default=3, ge=1)
    """`B` of Algorithm 3: questions per proposal."""
    dev_size: int = Field(default=300, ge=1)
    """Questions for scoring accepted templates; at most half of the hard questions."""
    min_hard: int = Field(default=2, ge=2)
    """Do not search with fewer hard questions than this (the authors' code uses 100)."""
    minibatch_temperature: float = Field(default=0.6, ge=0.0, le=10.0)
    """Sampling temperature of the minibatch rollouts."""
    dev_temperature: float = Field(default=0.0, ge=0.0, le=10.0)
    """Sampling temperature of the dev rollouts; 0 is greedy."""
    group_templates: Literal["diverse", "same"] = "diverse"
    """`same` gives all rollouts of a group one template: the ablation of Table 2."""
    calls_per_hard: float | Literal["unlimited"] = 1.0
    """Reflection calls of a search for every hard question, at most (no such limit in the paper)."""
    max_barren_waves: int = Field(default=8, ge=1)
    """End a search after so many waves in a row without a candidate to try (not in the paper)."""

    @field_validator("search_every")
    @classmethod
    def _positive_steps(cls, every: Every) -> Every:
        if every != "epoch" and every < 1:
            raise ValueError('must be "epoch" or a number of steps of at least 1')
        return every

    @property
    def bare_hardness(self) -> bool:
        return self.hardness == "bare"

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        smallest = min(self.dev_size, self.min_hard // 2)
        if self.search_budget < smallest:
            yield (
                f"p2o.search_budget = {self.search_budget} cannot pay for one evaluation on the {smallest} "
                f"dev questions that p2o.min_hard = {self.min_hard} and p2o.dev_size = {self.dev_size} "
                "make at least, so no search could begin; raise it, or lower one of them"
            )
