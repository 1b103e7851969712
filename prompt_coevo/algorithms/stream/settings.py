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
    """Reflection calls per epoch for every hard question, at most."""
    calls_per_step: int = Field(default=4, ge=1)
    """Reflection calls that start after one weight update, at most."""
    reply_steps: int = Field(default=1, ge=1)
    """Weight updates between a call and the use of its reply. Training waits for a reply that is late."""
    failures_per_call: int = Field(default=4, ge=1)
    """Failed responses in one call, at most; chosen from the questions most alike."""
    bare_members: int = Field(default=1, ge=1)
    """Rollouts in a hard question's group that run without a template."""
    trial_members: int = Field(default=2, ge=1)
    """Rollouts in a hard question's group that may run under a template on trial; all but the bare ones
    while no template in use is expected to solve the question."""
    proof: bool = True
    """Use a template only after a success on a hard question that its proposer did not see, if there is one
    like those it saw. This rules out templates that merely hold the answers."""
    first_sight: bool = True
    """Let half of a group run under templates when a question comes up for the first time. Without this, a
    run of one epoch learns nothing from templates and a run of two epochs little."""
    comparison: float | Literal["auto"] = "auto"
    """Share of the groups of like hard questions that never get a template, so that the run can say at its
    end whether templates helped; 0 for none. `auto` is 0.1 if there are 400 such groups or more, else 0."""
    library_size: int = Field(default=256, ge=1)
    """Templates in use, at most."""
    likeness: str = "words"
    """How to tell which questions are alike: `words` (shared words), `none`, the name of an installed
    likeness, or `module:attribute`."""

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
