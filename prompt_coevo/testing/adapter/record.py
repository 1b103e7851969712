"""What happened in a run, as plain data. A harness writes it, the laws read it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from prompt_coevo.placement import Prompt
from prompt_coevo.testing.adapter.job import Row

Moment: TypeAlias = Literal["train", "evaluate", "policy"]
"""What the trainer was doing: a generation round, its own evaluation, or a rollout for the engine."""


@dataclass(frozen=True)
class Sampled:
    """One row that the trainer's sampler completed, with the temperature that it was given.

    `number` counts from 0: generation rounds in training, weight updates so far elsewhere. `text` is the
    completion as rewards see it.
    """

    moment: Moment
    number: int
    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    text: str
    temperature: float


@dataclass(frozen=True)
class LogProbs:
    """Log-probs of the trained tokens: those that the loss used, beside a forward pass by the harness.

    `forward` is computed with the same weights on the trained sequence, `placed` on the prompt that the
    completion was sampled with. One number for every position in `Trained.positions`.
    """

    used: Sequence[float]
    forward: Sequence[float]
    placed: Sequence[float]


@dataclass(frozen=True)
class Trained:
    """One row in one call of the loss.

    `ids` is the whole sequence, prompt and completion, without padding. `positions` are the indices in
    `ids` of the tokens whose log-probs are in the loss; a padding token has an index beyond the end.
    `log_probs` has the keys "new", "old" and "reference", as far as the loss uses them; "old" is by the
    weights that sampled the round.
    """

    update: int
    ids: Sequence[int]
    positions: Sequence[int]
    log_probs: Mapping[str, LogProbs]


@dataclass(frozen=True)
class Scored:
    """One call of the trainer's reward function: its arguments and its result."""

    question_id: str
    prompt: Prompt
    text: str
    reward: float | None


@dataclass(frozen=True)
class Evaluated:
    """One evaluation by the trainer: after how many updates, and the prompts that it sampled with."""

    update: int
    prompt_ids: Sequence[Sequence[int]]


@dataclass
class Record:
    """One run, from its start or resume to its end. Updates are counted across resumes."""

    journal: list[dict[str, Any]]
    """All lines of `coevo/events.jsonl`, including those of the kit's own plugin."""
    sampled: list[Sampled] = field(default_factory=list)
    trained: list[Trained] = field(default_factory=list)
    scored: list[Scored] = field(default_factory=list)
    evaluated: list[Evaluated] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    """The number of every weight update as the trainer's optimizer counts them: 1, 2, 3."""
    epochs: list[int] = field(default_factory=list)
    """The number of updates at the end of each epoch, the last one included."""
    weights: dict[int, str] = field(default_factory=dict)
    """A fingerprint of the weights, by number of updates."""
    greedy: dict[int, dict[str, str]] = field(default_factory=dict)
    """By number of updates: the current weights' completion of each question as it stands in the dataset,
    decoded greedily by the harness."""
    around_policy: list[tuple[dict[str, str], dict[str, str]]] = field(default_factory=list)
    """Fingerprints of the trainer's state before and after every call of `Policy.rollout`: "random",
    "weights", "mode", "metrics" and anything else that must not change."""
    dataset: Sequence[Row] = ()
    """The rows that the trainer was given, as they are at the end of the run."""
    logged: list[dict[str, float]] = field(default_factory=list)
    """What the trainer wrote to its logger, in order."""
    checkpoints: dict[int, Path] = field(default_factory=dict)
    """The checkpoints, by number of updates."""
    temperature: float = 1.0
    """The sampling temperature in training."""
    engines: int = 1
    """The number of processes that built an engine."""
    rank_weights: Sequence[str] = ()
    """The weights of every rank at the end."""


def fingerprint(data: object) -> str:
    """Hash JSON values, bytes, or anything whose `repr` identifies it."""
    raw = (
        data if isinstance(data, bytes) else json.dumps(data, sort_keys=True, default=repr).encode()
    )
    return hashlib.sha256(raw).hexdigest()[:16]
