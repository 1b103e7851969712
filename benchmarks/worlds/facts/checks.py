"""Check that a base policy fits the world: it knows no hard word, and obeys explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from prompt_coevo.demo.evaluate import rewards, undisturbed
from prompt_coevo.demo.held_out import LONGEST_ANSWER
from prompt_coevo.demo.splits import held_out_tasks, longer_tasks
from prompt_coevo.demo.world import WORDS, Task, World, clause, reward
from prompt_coevo.errors import SettingsError
from worlds.facts.explained import Explained, explained


@dataclass(frozen=True)
class Limits:
    """The bounds of a share."""

    least: float = 0.0
    most: float = 1.0


LIMITS: Final[Mapping[str, Limits]] = {
    "hard, no hint": Limits(most=0.02),
    "hard, no hint, sampled": Limits(most=0.02),
    "hard, the right explanation": Limits(least=0.95),
    "hard, the right one among four": Limits(least=0.9),
    "hard, the right one among four, sampled": Limits(least=0.65),
    "hard, the right one among ten": Limits(least=0.6),
    "hard, longer lists, the right explanation": Limits(least=0.8),
    "hard, another word's explanation": Limits(most=0.02),
    "easy, no hint": Limits(least=0.9),
}
"""The allowed shares by situation; greedy, unless it says otherwise."""


def measured(model: Any, tokenizer: Any, world: World) -> dict[str, float]:
    """Return the share of right answers in every situation of `LIMITS`."""
    tasks = held_out_tasks(world)
    hard = [task for task in tasks if task.kind == "hard"]
    longer = [task for task in longer_tasks(world) if task.kind == "hard"]
    rng = np.random.default_rng(0)

    def told(tasks: Sequence[Task], others: int) -> list[Explained]:
        return [explained(world, task, others, rng) for task in tasks]

    def score(asked: Sequence[Any], temperature: float = 0.0) -> float:
        with undisturbed(model):
            found = rewards(
                model,
                tokenizer,
                asked,
                temperature,
                grade=reward,
                max_completion=LONGEST_ANSWER,
            )
        return float(found.mean())

    beside = [_beside(world, task) for task in hard]
    four = told(hard, 3)
    return {
        "hard, no hint": score(hard),
        "hard, no hint, sampled": score(hard, 1.0),
        "hard, the right explanation": score(told(hard, 0)),
        "hard, the right one among four": score(four),
        "hard, the right one among four, sampled": score(four, 1.0),
        "hard, the right one among ten": score(told(hard, 9)),
        "hard, longer lists, the right explanation": score(told(longer, 0)),
        "hard, another word's explanation": score(beside),
        "easy, no hint": score([task for task in tasks if task.kind == "easy"]),
    }


def check(folder: Path, world: World) -> dict[str, float]:
    """Return the base policy's numbers. Raises SettingsError, with them, if they are out of bounds."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = measured(model, AutoTokenizer.from_pretrained(folder), world)
    wrong = [
        f"{name}: {value:.3f} (wanted {LIMITS[name].least:g} to {LIMITS[name].most:g})"
        for name, value in found.items()
        if not LIMITS[name].least <= value <= LIMITS[name].most
    ]
    if wrong:
        raise SettingsError(
            f"the base policy in {folder} is not fit for draw {world.draw} of the world: "
            f"{'; '.join(wrong)}; make it again with python benchmarks/worlds facts"
        )
    return found


def _beside(world: World, task: Task) -> Explained:
    """Put the question after the explanation of another word."""
    other = WORDS[WORDS.index(task.word) - 1]
    return Explained(task, clause(other, world.meaning[other]))
