"""The section `hints`."""

from __future__ import annotations

from pydantic import Field, field_validator

from prompt_coevo.errors import SettingsError
from prompt_coevo.placement import check_layout
from prompt_coevo.settings.section import Section


class HintSettings(Section):
    """A part of the solution for hard questions."""

    column: str = "solution"
    """The dataset's column with the solution, or a hint."""
    threshold: float = Field(default=0.2, gt=0.0)
    """A question is hard if the mean reward of its bare rollouts is below this."""
    share: float = Field(default=0.5, gt=0.0, lt=1.0)
    """The share of a hard question's group that gets the hint; at least one member, and not all."""
    fraction: float = Field(default=0.5, gt=0.0, le=1.0)
    """The part of the solution that is shown first, and the most that ever is."""
    success_at: float = Field(default=0.5, gt=0.0)
    """The mean reward of the hinted members that counts as a success."""
    layout: str = "{{question}}\n\nHint: {{template}}"
    """How question and hint are joined."""
    max_tokens: int = Field(default=512, ge=1)
    """A longer hint is cut to the words that fit."""

    @field_validator("layout")
    @classmethod
    def _check_layout(cls, layout: str) -> str:
        try:
            check_layout(layout, ["template", "question"], "hints.layout")
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return layout
