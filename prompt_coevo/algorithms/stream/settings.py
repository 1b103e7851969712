"""The section `stream`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from prompt_coevo.algorithms.hard_questions.settings import HardQuestionSettings
from prompt_coevo.registry import unknown


class StreamSettings(HardQuestionSettings):
    """A search for templates that never stops training: the default method."""

    may_change = frozenset({"calls_per_hard", "calls_per_step"})
    method = "stream"

    calls_per_hard: float | Literal["unlimited"] = 1.0
    """Reflection calls of an epoch for every hard question, at most."""
    calls_per_step: int = Field(default=4, ge=1)
    """Reflection calls that begin after a weight update, at most."""
    reply_steps: int = Field(default=1, ge=1)
    """Weight updates until a reply is used. It is waited for if it is not there by then."""
    failures_per_call: int = Field(default=4, ge=1)
    """Failed responses that a call shows, at most; those to the questions most alike."""
    bare_members: int = Field(default=1, ge=1)
    """Members of a hard question's group that run without a template."""
    trial_members: int = Field(default=2, ge=1)
    """Members of a hard question's group that may run under a template on trial; all but the bare ones
    while no template in use is expected to solve it."""
    proof: bool = True
    """A template comes into use on a success on a hard question that its proposer did not see, where one
    is like those that it saw; so it cannot just hold their answers."""
    first_sight: bool = True
    """Half of a group may run under templates although the question was not yet measured. A run of a single
    epoch learns nothing from templates without it, one of two epochs little."""
    comparison: float | Literal["auto"] = "auto"
    """The share of the groups of like hard questions that never have a template, so that the run's end can
    say whether templates helped; 0 is none. `auto` is 0.1 from 400 such groups on, else 0."""
    library_size: int = Field(default=256, ge=1)
    """Templates in use, at most."""
    likeness: str = "words"
    """How it knows which questions are alike: `words` that they share, `none`, the name of an installed
    one, or `module:attribute`."""

    @property
    def asks_in_background(self) -> bool:
        return True

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.comparison != "auto" and not 0 <= self.comparison <= 0.5:
            yield (
                'stream.comparison must be "auto" or from 0 to 0.5, else too few hard questions are left '
                "for templates"
            )
        yield from unknown("likenesses", (self.likeness,), "stream.likeness")
