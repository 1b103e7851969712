"""Define a run's job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNBOUND: Final = 400
"""A budget of calls that no run here reaches."""


@dataclass(frozen=True)
class Job:
    """One of a host's `METHODS`, with a budget of calls."""

    method: str
    max_calls: int = UNBOUND
    ranks: int = 1
    steps: int = 24
    """Rounds of generation, which are weight updates here."""

    new_folders: bool = False
    """Whether each attempt has an output folder of its own, as where a cluster gives one to each job."""
