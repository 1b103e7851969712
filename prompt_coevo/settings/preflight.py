"""Checks before training begins: the section `preflight`."""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import field_validator

from prompt_coevo.settings.section import Section

V = TypeVar("V")


class PreflightSettings(Section):
    """Checks before training begins."""

    reflection: Literal["refuse", "warn", "off"] = "refuse"
    """Ask the reflection model one short question before the first step. Without an answer, `refuse` ends
    the run and `warn` trains anyway. `off` (or `false`) does not ask."""
    dry_run: bool = False
    """Run the checks (in TRL and your own loop also one group of rollouts), print the findings, and exit
    without training: status 0, or 1 if there is a problem."""

    @field_validator("reflection", mode="before")
    @classmethod
    def _reflection_as_a_switch(cls, value: V) -> V | str:
        """Map booleans to names, because YAML reads `off` as false."""
        return {"true": "refuse", "false": "off"}.get(str(value).lower(), value)
