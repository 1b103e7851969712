"""What one run of the demo is to do; light, so that a process that only starts runs needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prompt_coevo.demo.arms import BUDGET, Arm


@dataclass(frozen=True)
class Job:
    """An arm with a seed, in a draw of the world whose base policy is in the folder `base`."""

    arm: str
    spec: Arm
    seed: int
    out: Path
    draw: int = 0
    base: Path | None = None
    budget: int = BUDGET
    reflection: Mapping[str, Any] | None = None
    """The section of the settings, in place of the built-in teacher."""

    @property
    def rollouts(self) -> int:
        return int(self.budget * self.spec.budgets)
