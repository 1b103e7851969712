"""What one training run of the demo ends with, and the mean over several."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Scores:
    """Accuracy on held-out questions, greedy and without any template, and what is still hard.

    A run with instructions is scored under its best one.

    `hard_left` counts the training questions on which six sampled answers all fail.
    """

    epoch: int
    all: float
    hard: float
    unseen_pairs: float
    longer: float
    hard_left: int


@dataclass(frozen=True)
class Cracked:
    """A template and a question that the policy answered under it, and not without it."""

    template: str
    question: str
    answer: str


@dataclass(frozen=True)
class ArmResult:
    """One arm with one seed. `search_rollouts` counts verification too.

    `seconds` are spent in training and search, without evaluation.
    """

    arm: str
    seed: int
    curve: tuple[Scores, ...]
    train_rollouts: int
    search_rollouts: int
    seconds: float
    cracked: tuple[Cracked, ...] = ()
    instruction: str | None = None

    @property
    def final(self) -> Scores:
        return self.curve[-1]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "final": asdict(self.final)}


METRICS = ("all", "hard", "unseen_pairs", "longer", "hard_left")


def summary(results: Sequence[ArmResult]) -> dict[str, dict[str, dict[str, float]]]:
    """Arm, quantity, then mean and standard deviation (of the sample) over the seeds."""
    arms = dict.fromkeys(result.arm for result in results)
    return {arm: _summary_of([result for result in results if result.arm == arm]) for arm in arms}


def paired(results: Sequence[ArmResult]) -> dict[str, dict[str, dict[str, float]]]:
    """Every arm minus the first one on the same seeds: mean difference and its standard error."""
    names = list(dict.fromkeys(result.arm for result in results))
    finals = {(result.arm, result.seed): result.final for result in results}
    seeds = sorted({result.seed for result in results})
    return {
        name: {
            metric: _difference(
                [
                    getattr(finals[name, seed], metric) - getattr(finals[names[0], seed], metric)
                    for seed in seeds
                ]
            )
            for metric in METRICS
        }
        for name in names[1:]
    }


def _difference(values: Sequence[float]) -> dict[str, float]:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "standard_error": spread / math.sqrt(len(values))}


def _summary_of(results: Sequence[ArmResult]) -> dict[str, dict[str, float]]:
    columns: dict[str, list[float]] = {
        name: [getattr(result.final, name) for result in results] for name in METRICS
    }
    for name in ("train_rollouts", "search_rollouts", "seconds"):
        columns[name] = [getattr(result, name) for result in results]
    return {
        name: {
            "mean": statistics.fmean(values),
            "std": statistics.stdev(values) if len(values) > 1 else 0.0,
        }
        for name, values in columns.items()
    }
