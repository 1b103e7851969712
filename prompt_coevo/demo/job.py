"""One run of the demo and its settings.

Does not import torch, because the process that launches the runs does not need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prompt_coevo.demo.arms import BUDGET, FIRST_INSTRUCTION, QUESTIONS, Arm
from prompt_coevo.demo.splits import SHARES, Shares, training_tasks
from prompt_coevo.demo.teacher import teacher
from prompt_coevo.demo.world import Task, World, clause
from prompt_coevo.lines import JSON
from prompt_coevo.settings import Settings


@dataclass(frozen=True)
class Job:
    """An arm with a seed, in one draw of the world. The folder `base` holds that draw's base policy."""

    arm: str
    spec: Arm
    seed: int
    out: Path
    draw: int = 0
    base: Path | None = None
    budget: int = BUDGET
    reflection: Mapping[str, Any] | None = None
    """The settings' section `reflection`, to replace the built-in teacher."""

    bfloat16: bool | None = None
    """Whether a language model multiplies in bfloat16 on a CPU; None: where the hardware does."""

    questions: int = QUESTIONS
    shares: Shares = field(default_factory=lambda: SHARES)

    def tasks(self) -> tuple[Task, ...]:
        """Draw the questions to train on."""
        return training_tasks(World(self.draw), self.seed, self.questions, shares=self.shares)


def settings_of(
    arm: Arm, world: World, seed: int, reflection: Mapping[str, Any] | None = None
) -> Settings:
    """Build an arm's settings. `reflection` is that section of the settings; if it names neither a model
    nor a function, the built-in teacher answers."""
    values = _filled(arm.values or {}, first_instruction(world))
    answering = dict(reflection or {})
    if not answering.keys() & {"model", "function"}:
        answering["function"] = teacher(seed=seed)
    return Settings(seed=seed, reflection=answering, **values)


def first_instruction(world: World) -> str:
    """Write what a user who knows a little would: two rules about easy words, both correct."""
    rules = [clause(word, world.meaning[word]) for word in world.words("easy")[:2]]
    return " ".join(["note remember", *rules])


def _filled(values: Mapping[str, JSON], instruction: str) -> dict[str, JSON]:
    """Replace the placeholders with the instruction."""
    filled: dict[str, JSON] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            value = _filled(value, instruction)
        filled[name] = instruction if value == FIRST_INSTRUCTION else value
    return filled
