"""The job that an adapter under test runs: plain data, so that another process can run it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict

from prompt_coevo.lines import JSON
from prompt_coevo.placement import Prompt

RewardRule: TypeAlias = Literal["by text", "zero", "one", "none", "sometimes none"]

PROBE: Final = "prompt_coevo.testing.adapter.probe:METHOD"
"""The method that plans, asks and listens in every run of the kit."""


class Row(TypedDict):
    """A row of the dataset, with a unique id."""

    id: str
    prompt: Prompt
    answer: str


@dataclass(frozen=True)
class Material:
    """Questions and texts, in words that the model under test can tell apart.

    `rows`: an even number of chats, at least four. `texts`: at least three different ones, each shorter
    than a completion. `long_text` is longer than any completion.
    """

    rows: Sequence[Row]
    texts: Sequence[str]
    long_text: str


@dataclass(frozen=True)
class Job:
    """One run: what to train on, for how long, and from where.

    A round is half of the rows, in groups of eight. `settings` are those of `prompt_coevo.Settings` as JSON
    values; the kit's plugin is the one method in `algorithms`, so you need not pass anything else on.
    Choose a learning rate that changes the greedy completions within a few updates.
    """

    settings: Mapping[str, Any]
    rows: Sequence[Row]
    epochs: int = 2
    group_size: int = 8
    rewards: Mapping[str, RewardRule] = field(default_factory=dict)
    """By question id; see `reward_of`."""
    evaluates: bool = False
    """Evaluate on `rows` before training and after every round."""
    saves: bool = False
    """Write a checkpoint after every round."""
    delivery: Literal["at once", "in parts", "late"] = "at once"
    """How the trainer delivers rollouts. "in parts": one part of every group, then the rest, each in a
    different order than planned. "late": after the next round was sampled, and at the end of the run."""
    stop_after: int | None = None
    """Stop like a killed process once the round with this update is over and saved."""
    resume_from: Path | None = None
    ranks: int = 1
    failing: Literal["nowhere", "everywhere", "on the last rank"] = "nowhere"
    """Where the reward function raises, for the engine's own rollouts only."""


def settings_for(material: Material, **probe: JSON) -> dict[str, JSON]:
    """Build the settings of a run with the kit's plugin. Its templates stand after the question, not before
    it."""
    texts = {"texts": list(material.texts), "long_text": material.long_text}
    return {
        "algorithms": [PROBE],
        "question_id_column": "id",
        "placement": {"template_layout": "{{question}} {{template}}"},
        "plugins": {"adapter_probe": {**texts, **probe}},
    }


def reward_of(job: Job, question_id: str, text: str) -> float | None:
    """Return the reward of a completion, or None where nobody can grade it.

    "by text": a number between 0 and 1 that hardly two pairs of question and completion share.
    """
    number = int(hashlib.sha256(f"{question_id}\0{text}".encode()).hexdigest()[:5], 16) / 16**5
    rewards: dict[RewardRule, float | None] = {
        "by text": number,
        "sometimes none": None if number < 0.5 else number,
        "zero": 0.0,
        "one": 1.0,
        "none": None,
    }
    return rewards[job.rewards.get(question_id, "by text")]
