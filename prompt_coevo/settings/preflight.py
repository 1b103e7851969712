"""Checks before training begins: the section `preflight`."""

from __future__ import annotations

from typing import Annotated, Literal

from prompt_coevo.settings.section import Section, switch


class PreflightSettings(Section):
    """Checks before training begins."""

    reflection: Annotated[Literal["refuse", "warn", "off"], switch("refuse")] = "refuse"
    """Ask the reflection model one short question before the first step. Without an answer, `refuse` ends
    the run and `warn` trains anyway. `off` (or `false`) does not ask."""
    dry_run: bool = False
    """Run the checks (in TRL and your own loop also one group of rollouts), print the findings, and exit
    without training: status 0, or 1 if there is a problem."""
