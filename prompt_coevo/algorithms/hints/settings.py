"""The section `hints`."""

from __future__ import annotations

from pydantic import Field, field_validator

from prompt_coevo.placement import check_layout
from prompt_coevo.settings.section import Section


class HintSettings(Section):
    """Show part of the solution of hard questions."""

    column: str = "solution"
    """Dataset column with the solution, or a hint."""
    threshold: float = Field(default=0.2, gt=0.0)
    """A question is hard if the mean reward of its bare rollouts is below this."""
    share: float = Field(default=0.5, gt=0.0, lt=1.0)
    """Share of a hard question's group that gets the hint: at least one member, but not all."""
    fraction: float = Field(default=0.5, gt=0.0, le=1.0)
    """Part of the solution that is shown first; never more than this."""
    success_at: float = Field(default=0.5, gt=0.0)
    """Mean reward of the hinted members from which the hint counts as successful."""
    layout: str = "{{question}}\n\nHint: {{template}}"
    """Template that joins question and hint."""
    max_tokens: int = Field(default=512, ge=1)
    """A longer hint is cut to the words that fit."""

    @field_validator("layout")
    @classmethod
    def _check_layout(cls, layout: str) -> str:
        check_layout(layout, ["template", "question"], "hints.layout")
        return layout
