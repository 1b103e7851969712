"""What is written of a run. It needs nothing but Python, so a table can be made anywhere."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

POINTS: Final = 8
"""Scores of a run, at equal distances of its budget."""


@dataclass
class Run:
    """What is written of a run, and read again when it goes on."""

    tier: str
    draw: int
    arm: str
    seed: int
    learning_rate: float
    budget: int
    device: str = ""
    done: bool = False
    seconds: float = 0.0
    """Without evaluation, of all calls together."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """By point: rollouts of all kinds, a search's among them, the step, and accuracy by kind of word."""
    metrics: dict[str, float] = field(default_factory=dict)
    """The search's own, at the end."""

    def is_of(self, other: Run) -> bool:
        names = ("tier", "draw", "arm", "seed", "learning_rate", "budget")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(vars(self), indent=1) + "\n")


def read(file: Path) -> Run:
    return Run(**json.loads(file.read_text()))
