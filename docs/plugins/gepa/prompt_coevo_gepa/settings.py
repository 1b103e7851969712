"""Define the section `gepa`."""

from __future__ import annotations

from pydantic import Field

from prompt_coevo import Section


class GepaSettings(Section):
    """P2O's template search by the package gepa (arXiv 2507.19457). All else is set under `p2o`."""

    proposals: int = Field(default=1, ge=1)
    """Proposals in one iteration, whose rollouts and reflection calls are made together."""
