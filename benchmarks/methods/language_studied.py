"""Describe an arm of tier 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from prompt_coevo.demo.arms import Arm

WORLD: Final = "unnamed"


@dataclass(frozen=True)
class Studied:
    """An arm, and what differs in its runs."""

    spec: Arm
    reflection: Mapping[str, Any] = field(default_factory=dict)
    """The section of the settings; the teacher that reads if it names none."""

    budgets: float = 1.0
    """How many times the usual number of rollouts it may use."""

    reserve: int = 0
    """Rollouts that training leaves in the budget for later."""

    told: str | None = None
    """The function of language_told.py that builds its trainer, if it needs the questions' solutions."""

    world: str = WORLD
    """Which questions."""

    knows_questions: bool = False
    """Whether it has instructions about the built-in questions."""

    @property
    def of_built_in_questions(self) -> bool:
        """Tell whether it cannot run with questions from a file."""
        return self.knows_questions or bool(self.told) or self.world != WORLD
