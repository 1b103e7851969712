"""What an adapter under test is asked to do: plain data, so that it can be done in another process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

Row: TypeAlias = Mapping[str, Any]
RewardRule: TypeAlias = Literal["by text", "zero", "one", "none", "sometimes none"]

PROBE: Final = "prompt_coevo.testing.adapter.probe:METHOD"
"""The method that plans, asks and listens in every run of the kit."""


@dataclass(frozen=True)
class Material:
    """Questions and texts in words that the model under test can tell apart.

    `rows` are at least four chats, `{"id", "prompt", "answer"}`, with ids of their own; an even
    number. `texts` are at least three different ones, shorter than a completion; `long_text` is longer
    than any completion.
    """

    rows: Sequence[Row]
    texts: Sequence[str]
    long_text: str


@dataclass(frozen=True)
class Job:
    """One run: what to train on, for how long, and from where.

    A round is half of the rows, in groups of eight. `settings` are those of `prompt_coevo.Settings`, as
    JSON values; the kit's plugin is the one method in `algorithms`, so nothing else has to be passed
    on. The host trains with a learning rate that changes what is written greedily within a few updates.
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
    """How the host hands rollouts on. In parts: a part of every group, then the rest, each in another
    order than planned. Late: after the next round was sampled, and at the end of the run."""
    stop_after: int | None = None
    """End as a killed process does, when the round with this update is over and saved."""
    resume_from: Path | None = None
    ranks: int = 1
    failing: Literal["nowhere", "everywhere", "on the last rank"] = "nowhere"
    """Where the reward function raises, in rollouts for the engine alone."""


def settings_for(material: Material, **probe: Any) -> dict[str, Any]:
    """Settings of a run with the kit's plugin. Its texts stand behind the question, not before it."""
    texts = {"texts": list(material.texts), "long_text": material.long_text}
    return {
        "algorithms": [PROBE],
        "question_id_column": "id",
        "placement": {"template_layout": "{{question}} {{template}}"},
        "plugins": {"adapter_probe": {**texts, **probe}},
    }


def reward_of(job: Job, question_id: str, text: str) -> float | None:
    """The reward of a completion; None where nobody can say what it is worth.

    By text: a number between 0 and 1 that hardly two pairs of question and completion share.
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
