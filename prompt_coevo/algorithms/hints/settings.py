"""The section `hints`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from pydantic import Field, field_validator

from prompt_coevo.errors import SettingsError
from prompt_coevo.placement import check_layout
from prompt_coevo.settings.section import Section

Place: TypeAlias = Literal["before", "after", "start"]

_LAYOUTS: Final[dict[Place, str]] = {
    "before": "Hint: {{template}}\n\n{{question}}",
    "after": "{{question}}\n\nHint: {{template}}",
    "start": (
        "{{question}}\n\nThe answer begins as follows. Write the whole answer, this beginning "
        "included:\n\n{{template}}"
    ),
}


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
    notch: float = Field(default=0.25, gt=0.0, le=1.0)
    """How much less is shown after a success, and more after a failure of all hinted members."""
    success_at: float = Field(default=0.5, gt=0.0)
    """The mean reward of the hinted members that counts as a success."""
    fade_steps: int | None = Field(default=None, ge=1)
    """After so many weight updates nothing is shown any more; until then the most that is shown falls in
    a straight line. None: only success makes it less."""
    unit: Literal["words", "lines"] = "words"
    """Where the solution may be cut."""
    place: Place = "after"
    """`before` or `after` the question, or after it as the `start` of the answer, to be repeated."""
    layout: str | None = None
    """How hint and question are joined, in place of `place`: with {{question}} and {{template}}."""
    distill: bool = True
    """Train hinted rollouts without the hint. Off is an ablation: the hint stays in the prompt."""
    max_tokens: int = Field(default=512, ge=1)
    """A longer hint is cut to the units that fit."""

    @field_validator("layout")
    @classmethod
    def _check_layout(cls, layout: str | None) -> str | None:
        if layout is not None:
            try:
                check_layout(layout, ["template", "question"], "hints.layout")
            except SettingsError as error:
                raise ValueError(str(error)) from None
        return layout

    @property
    def template_layout(self) -> str:
        """The layout that counts."""
        return self.layout if self.layout is not None else _LAYOUTS[self.place]

    def problems(self) -> Iterator[str]:
        if self.layout is not None and "place" in self.model_fields_set:
            yield "hints.place has no effect with hints.layout; leave one of them out"
