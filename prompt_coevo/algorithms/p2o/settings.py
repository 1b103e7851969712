"""The section `p2o`. The defaults are the paper's values, but for the search, which is `stream`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field, field_validator

from prompt_coevo.registry import unknown
from prompt_coevo.settings.section import Section

SearchBackend: TypeAlias = Literal["waves", "stream"]
Overspend: TypeAlias = Literal["never", "literal"]

# Up to there a threshold above every reward is said, and may be meant: all questions are hard.
_TAU_MOST: Final = 2.0

_OF_WAVES = {
    "beam_width",
    "dev_size",
    "dev_temperature",
    "front_fill",
    "group_templates",
    "max_barren_waves",
    "min_hard",
    "minibatch_size",
    "minibatch_temperature",
    "overspend",
    "search_budget",
    "search_every",
}
_OF_STREAM = {
    "bare_members",
    "calls_per_step",
    "failures_per_call",
    "first_sight",
    "library_size",
    "likeness",
    "proof",
    "reply_steps",
    "trial_members",
}
_IDLE: Mapping[str, set[str]] = {"waves": _OF_STREAM, "stream": _OF_WAVES}
"""Settings without effect, by search."""


def _search_with(setting: str) -> str:
    """The first search in which a setting has an effect."""
    return next(search for search, idle in _IDLE.items() if setting not in idle)


class P2OSettings(Section):
    """P2O (arXiv 2603.21877)."""

    may_change = frozenset({"search_budget", "calls_per_hard", "calls_per_step"})

    proposer: str = "propose_improvement"
    """The name of a registered proposer."""
    tau: float = 0.2
    """`τ` of eq. 4: a question is hard if its group's mean reward is below it. At K = 6 the default
    means all fail, or one success, as the authors ran it."""
    search_every: Literal["epoch"] | int = "epoch"
    """Search at the end of every epoch (Algorithm 1), or every so many weight updates."""
    search_budget: int = Field(default=11_000, ge=1)
    """`C_total` of Algorithm 3: policy rollouts per search (what the authors ran)."""
    overspend: Overspend = "never"
    """`never`: a wave holds what the budget can pay in full; `literal`: the paper's test between waves."""
    beam_width: int = Field(default=16, ge=1)
    """`W` of Algorithm 4."""
    front_fill: bool = False
    """Fill a front smaller than `W` with further proposals from the same parents (not in the paper)."""
    minibatch_size: int = Field(default=3, ge=1)
    """`B` of Algorithm 3: questions per proposal."""
    dev_size: int = Field(default=300, ge=1)
    """Questions on which accepted templates are scored; at most half of the hard ones."""
    min_hard: int = Field(default=2, ge=2)
    """Fewer hard questions than this: no search (the authors' code uses 100)."""
    solved_at: float = Field(default=1.0, gt=0.0)
    """A reward from which a question counts as solved: `C(z)` of Algorithm 2."""
    minibatch_temperature: float = Field(default=0.6, ge=0.0, le=10.0)
    """Sampling temperature of the minibatch rollouts."""
    dev_temperature: float = Field(default=0.0, ge=0.0, le=10.0)
    """Sampling temperature of the dev rollouts; 0 is greedy."""
    group_templates: Literal["diverse", "same"] = "diverse"
    """`same` gives all rollouts of a group one template: the ablation of Table 2."""
    search_backend: SearchBackend = "stream"
    """`stream` tries templates inside the training groups and never stops training; `waves` is the paper's
    search between epochs."""
    hardness: Literal["literal", "bare"] | None = None
    """`literal` judges a question by its whole group, as eq. 4 says; `bare` by the members without a
    template, so that what a template solves is not taken for learnt. Default: `bare` for `stream`, else
    `literal`."""
    calls_per_hard: float | Literal["unlimited"] = Field(default=1.0)
    """Reflection calls for every hard question, at most: in an epoch with `stream`, else in a search.
    The paper knows no such limit."""
    calls_per_step: int = Field(default=4, ge=1)
    """`stream`: reflection calls that begin after a weight update, at most."""
    reply_steps: int = Field(default=1, ge=1)
    """`stream`: weight updates until a reply is used. It is waited for if it is not there by then."""
    failures_per_call: int = Field(default=4, ge=1)
    """`stream`: failed responses that a call shows, at most; those to the questions most alike."""
    bare_members: int = Field(default=1, ge=1)
    """`stream`: members of a hard question's group that run without a template."""
    trial_members: int = Field(default=2, ge=1)
    """`stream`: members of a hard question's group that may run under a template on trial."""
    proof: bool = True
    """`stream`: a template comes into use on a success on a hard question that its proposer did not see,
    where one is like those that it saw; so it cannot just hold their answers."""
    first_sight: bool = False
    """`stream`: half of a group may run under templates although the question was not yet measured. A run
    of a single epoch learns nothing from templates without it, one of two epochs little."""
    library_size: int = Field(default=256, ge=1)
    """`stream`: templates in use, at most."""
    likeness: str = "words"
    """`stream`: how it knows which questions are alike: `words` that they share, `none`, the name of an
    installed one, or `module:attribute`."""
    max_barren_waves: int = Field(default=8, ge=1)
    """End a search after so many waves in a row that gave no candidate to try (not in the paper)."""

    @field_validator("search_backend", mode="before")
    @classmethod
    def _no_gepa(cls, name: Any) -> Any:
        if name == "gepa":
            raise ValueError(
                '"gepa" was removed: install docs/plugins/gepa and set algorithms = "p2o,gepa"'
            )
        return name

    @field_validator("likeness")
    @classmethod
    def _removed(cls, name: str) -> str:
        if name in ("column", "encoder"):
            raise ValueError(
                f'"{name}" was removed: name a function of yours as module:attribute, which compares '
                "questions by their texts and columns"
            )
        return name

    @field_validator("search_every")
    @classmethod
    def _positive_steps(cls, every: Any) -> Any:
        if every != "epoch" and every < 1:
            raise ValueError('must be "epoch" or a number of steps of at least 1')
        return every

    def problems(self) -> Iterator[str]:
        if not self.tau > 0:
            yield "p2o.tau must be greater than 0, else no question can be hard; for example 0.2"
        if self.tau > _TAU_MOST * self.solved_at:
            yield (
                f"p2o.tau = {self.tau:g} is so far above p2o.solved_at = {self.solved_at:g} that every "
                "question would be hard for ever; set a share of it, for example 0.2"
            )
        yield from unknown("likenesses", (self.likeness,), "p2o.likeness")
        smallest = min(self.dev_size, self.min_hard // 2)
        if self.search_backend != "stream" and self.search_budget < smallest:
            yield (
                f"p2o.search_budget = {self.search_budget} cannot pay for one evaluation on the {smallest} "
                f"dev questions that p2o.min_hard = {self.min_hard} and p2o.dev_size = {self.dev_size} "
                "make at least, so no search could begin; raise it, or lower one of them"
            )
        for name in sorted(self._idle() & self.model_fields_set):
            yield (
                f'p2o.{name} has no effect with search_backend = "{self.search_backend}"; leave it out, '
                f'or set search_backend = "{_search_with(name)}"'
            )
        if self.calls_per_hard != "unlimited" and not 0 < self.calls_per_hard < math.inf:
            yield 'p2o.calls_per_hard must be greater than 0 and finite, or "unlimited"'

    def calls_for(self, hard: int) -> float:
        """Reflection calls for so many hard questions, at most."""
        limit = self.calls_per_hard
        return math.inf if limit == "unlimited" else math.ceil(limit * hard)

    @property
    def hardness_in_use(self) -> Literal["literal", "bare"]:
        """The setting, or what is usual for the search."""
        return self.hardness or ("bare" if self.search_backend == "stream" else "literal")

    @classmethod
    def without_lapsed(cls, preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """What a preset sets for another search lapses if a user names one."""
        chosen = given.get("search_backend", preset.get("search_backend"))
        if chosen == preset.get("search_backend"):
            return dict(preset)
        idle = {*_IDLE.get(str(chosen), ()), "search_backend", "hardness"}
        return {name: value for name, value in preset.items() if name not in idle}

    def _idle(self) -> set[str]:
        """Settings that do nothing with this search."""
        return _IDLE[self.search_backend]
