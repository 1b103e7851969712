"""What is looked at before training begins: the section `preflight`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator

from prompt_coevo.settings.section import Section


class PreflightSettings(Section):
    """What is looked at before training begins."""

    reflection: Literal["refuse", "warn", "off"] = "refuse"
    """What becomes of a run whose reflection model does not answer one short call before the first step:
    `refuse` ends it, `warn` trains all the same, `off` does not ask. `false` is `off`."""
    dry_run: bool = False
    """Print what was found before training, with one scored group of rollouts, and end there: exit status
    0, or 1 if there is a problem."""

    @field_validator("reflection", mode="before")
    @classmethod
    def _reflection_as_a_switch(cls, value: Any) -> Any:
        """YAML reads `off` as false."""
        return {"true": "refuse", "false": "off"}.get(str(value).lower(), value)
