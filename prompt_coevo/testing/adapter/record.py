"""What happened in a run, as plain data. A harness writes it down, the laws read it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from prompt_coevo.placement import Prompt

Moment: TypeAlias = Literal["train", "evaluate", "policy"]
"""What the host was doing: a generation round, its own evaluation, or a rollout for the engine."""


@dataclass(frozen=True)
class Sampled:
    """One row that the host's sampler completed, at the temperature that it was given.

    `number` counts from 0: in training the generation rounds, elsewhere the weight updates so far.
    `text` is the completion as rewards see it.
    """

    moment: Moment
    number: int
    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    text: str
    temperature: float


@dataclass(frozen=True)
class LogProbs:
    """Log-probs of the trained tokens that the loss used, next to a forward pass of the harness.

    `forward` is computed by the same weights on the sequence that was trained on, `placed` on the
    prompt that the completion was sampled with. One number for every position of `Trained.positions`.
    """

    used: Sequence[float]
    forward: Sequence[float]
    placed: Sequence[float]


@dataclass(frozen=True)
class Trained:
    """One row of one call of the loss.

    `ids` is the whole sequence without padding, prompt and completion. `positions` are the places in
    it of the tokens whose log-probs are in the loss; a place in the padding is one beyond the end.
    `log_probs` are named "new", "old" and "reference", as far as the loss uses them; those of "old"
    are of the weights that the round was sampled with.
    """

    update: int
    ids: Sequence[int]
    positions: Sequence[int]
    log_probs: Mapping[str, LogProbs]


@dataclass(frozen=True)
class Scored:
    """One call of the host's reward function: what it was given and what it said."""

    question_id: str
    prompt: Prompt
    text: str
    reward: float | None


@dataclass(frozen=True)
class Evaluated:
    """One evaluation of the host: after how many updates, and the prompts that it sampled with."""

    update: int
    prompt_ids: Sequence[Sequence[int]]


@dataclass
class Record:
    """One run, from its start or its resumption to its end. Updates are counted over all runs."""

    journal: list[dict[str, Any]]
    """All lines of `coevo/events.jsonl`, in which the kit's own plugin says what it was told."""
    sampled: list[Sampled] = field(default_factory=list)
    trained: list[Trained] = field(default_factory=list)
    scored: list[Scored] = field(default_factory=list)
    evaluated: list[Evaluated] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    """The number of every weight update, as the host's optimizer counts them: 1, 2, 3."""
    epochs: list[int] = field(default_factory=list)
    """After how many updates each epoch was over, the last one included."""
    weights: dict[int, str] = field(default_factory=dict)
    """A fingerprint of the weights after so many updates."""
    greedy: dict[int, dict[str, str]] = field(default_factory=dict)
    """After so many updates: what the live weights write to each question as it stands in the dataset,
    decoded greedily by the harness."""
    around_policy: list[tuple[dict[str, str], dict[str, str]]] = field(default_factory=list)
    """Fingerprints of the host's state before and after every call of `Policy.rollout`: "random",
    "weights", "mode", "metrics" and whatever else must stay."""
    dataset: Sequence[Mapping[str, Any]] = ()
    """The rows that the host was given, as they are at the end of the run."""
    logged: list[dict[str, float]] = field(default_factory=list)
    """What the host wrote to its logger, in order."""
    checkpoints: dict[int, Path] = field(default_factory=dict)
    """The checkpoint after so many updates."""
    temperature: float = 1.0
    """What the host samples with in training."""
    engines: int = 1
    """How many processes built an engine."""
    rank_weights: Sequence[str] = ()
    """The weights of every rank at the end."""


def fingerprint(data: Any) -> str:
    """A hash of JSON values, bytes or anything with a telling `repr`."""
    raw = (
        data if isinstance(data, bytes) else json.dumps(data, sort_keys=True, default=repr).encode()
    )
    return hashlib.sha256(raw).hexdigest()[:16]
