"""How large everything is: for one GPU, for an hour of one CPU core, and for tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from prompt_coevo.demo.world import LENGTHS, Size, World

_NOTE: Final = "gpu_world.json"


@dataclass(frozen=True)
class Tier:
    """A world, a policy, how both are trained.

    Steps of training have `questions_per_step` groups of `group_size` rollouts. The budget counts all
    rollouts, a search's among them. `dev_size`, `beam_width` and `search_budget` are those of `waves`.
    """

    size: Size

    width: int
    inner: int
    layers: int
    heads: int

    pretrain_steps: int
    pretrain_rows: int
    pretrain_rate: float

    questions: int
    held_out: int
    questions_per_step: int
    group_size: int
    budget: int
    learning_rate: float

    dev_size: int
    beam_width: int
    search_budget: int

    @property
    def rollouts_per_step(self) -> int:
        return self.questions_per_step * self.group_size

    @property
    def most_steps(self) -> int:
        """Of an arm that rolls out nothing besides training."""
        return self.budget // self.rollouts_per_step

    @property
    def max_completion(self) -> int:
        """The longest right answer and its end."""
        return self.size.skills * (3 + max(LENGTHS)) + 2


TIERS: Final = {
    # 26 million parameters. 600 steps of GRPO, 19 epochs.
    "full": Tier(
        Size(easy=24, medium=24, hard=200, skills=3),
        width=512,
        inner=1408,
        layers=8,
        heads=8,
        pretrain_steps=8000,
        pretrain_rows=512,
        pretrain_rate=6e-4,
        questions=2048,
        held_out=1024,
        questions_per_step=64,
        group_size=8,
        budget=307_200,
        learning_rate=1e-4,
        dev_size=256,
        beam_width=4,
        search_budget=6400,
    ),
    # The second world's numbers, with chains of three: the recipe's check without a GPU.
    "small": Tier(
        Size(skills=3),
        width=64,
        inner=176,
        layers=3,
        heads=4,
        pretrain_steps=4000,
        pretrain_rows=128,
        pretrain_rate=2e-3,
        questions=512,
        held_out=512,
        questions_per_step=32,
        group_size=6,
        budget=30_720,
        learning_rate=4e-4,
        dev_size=64,
        beam_width=4,
        search_budget=1200,
    ),
    "tiny": Tier(
        Size(easy=4, medium=4, hard=8, skills=3),
        width=16,
        inner=32,
        layers=1,
        heads=2,
        pretrain_steps=12,
        pretrain_rows=16,
        pretrain_rate=2e-3,
        questions=16,
        held_out=48,
        questions_per_step=4,
        group_size=2,
        budget=128,
        learning_rate=1e-3,
        dev_size=4,
        beam_width=1,
        search_budget=24,
    ),
}


@dataclass(frozen=True)
class Base:
    """A base policy's folder, the tier it was made for, and the draw of its world."""

    folder: Path
    tier_name: str
    draw: int

    @property
    def tier(self) -> Tier:
        return TIERS[self.tier_name]

    @cached_property
    def world(self) -> World:
        return World(self.draw, self.tier.size)

    def note(self) -> None:
        """Written last: a folder that has it has a base policy."""
        values: dict[str, Any] = {"tier": self.tier_name, "draw": self.draw}
        (self.folder / _NOTE).write_text(json.dumps(values) + "\n")


def read_base(folder: Path) -> Base:
    """The base policy of a folder. Ends the program if there is none."""
    file = folder / _NOTE
    if not file.exists():
        raise SystemExit(
            f"there is no finished base policy in {folder}: "
            f"run `python benchmarks/gpu_world pretrain --out {folder}` until it says so"
        )
    noted = json.loads(file.read_text())
    return Base(folder, noted["tier"], noted["draw"])
