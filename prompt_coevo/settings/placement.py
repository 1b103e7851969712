"""Where instruction and template go in a prompt: the section `placement`."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from prompt_coevo.placement import Placement, check_layout
from prompt_coevo.settings.section import Section


class PlacementSettings(Section):
    """Where instruction and template go in a prompt."""

    instruction: Literal["system", "prefix"] = "system"
    """`system`: as the chat's system message; `prefix`: in front of the last user message."""
    template_layout: str = Placement.template_layout
    """How a template is joined to a question: `T(x, z)`, P2O section 3.2."""

    @model_validator(mode="after")
    def _check_layouts(self) -> PlacementSettings:
        check_layout(self.template_layout, ["template", "question"], "placement.template_layout")
        return self

    def build(self) -> Placement:
        return Placement(**self.model_dump())
