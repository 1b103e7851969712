"""What the smoke of every adapter is made of: variants, their settings, and what a run leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

GROUP: Final = 4
"""Rollouts of a question."""
QUESTIONS: Final = 16
QUESTIONS_PER_STEP: Final = 4
ROLLOUTS_PER_STEP: Final = GROUP * QUESTIONS_PER_STEP
EPOCHS: Final = 3
STEPS: Final = EPOCHS * QUESTIONS // QUESTIONS_PER_STEP
PROMPT_TOKENS: Final = 200
"""With a completion less than the 256 positions of the policy."""
LEARNING_RATE: Final = 4e-4

Command: TypeAlias = tuple[Sequence[str], Mapping[str, str]]
"""A process to start, and what its environment has besides."""


@dataclass(frozen=True)
class Variant:
    """One way to train."""

    name: str
    says: str
    """For the table: what is special about it."""

    coevo: Mapping[str, Any]
    """Settings of the package, nested."""

    host: tuple[str, ...] | Mapping[str, Any] = ()
    """What the trainer's own configuration has besides: arguments, or values by name."""

    packages: tuple[str, ...] = ()
    """What must be installed besides what the adapter needs."""

    on_cpu: bool = False
    """Whether it can run without any GPU."""


@dataclass(frozen=True)
class Evidence:
    """What a run that ended well left behind, read from its files."""

    losses: Sequence[float]
    """One a step."""

    gradients: Sequence[float]
    """Their norms, one a step."""

    metrics: Mapping[str, float]
    """The package's, at the last step, without `coevo/`."""

    templated: float
    """The greatest share of a step's rollouts under a template."""

    prompts: int | None = None
    """Trained prompts that were compared with the questions; None where the host does not show them."""

    strangers: int = 0
    """Those among them that are no question of the dataset as it stands there."""

    difference: float | None = None
    """Between the sampler and the trainer, in rows without a template; None if it was not measured."""

    measure: str = ""
    """What that is the difference of."""


@dataclass(frozen=True)
class Adapter:
    """The smoke of one adapter."""

    name: str
    title: str
    packages: tuple[str, ...]
    """Without which nothing of it runs."""

    install: Mapping[str, str]
    """By package: what to give to `pip install`."""

    variants: tuple[Variant, ...]
    prepare: Callable[[Variant, Path, bool], Command]
    """Writes what the variant's process needs into its folder, and says how it is started; the last
    argument is true on a CPU."""

    read: Callable[[Variant, Path], Evidence]
    """Raises OSError, KeyError or ValueError if the run did not leave what it should in the folder."""


# The settings of the package, the same for every adapter.

_ANSWERS: Final = {
    "reflection": {"function": "prompt_coevo.smoke.world.answer"},
    "preflight": {"reflection": "off"},
    "seed": 0,
}
_WAVES: Final = {
    "overspend": "never",
    "tau": 2.0,  # above every reward: all questions are hard, so every epoch ends with a search
    "dev_size": 8,
    "minibatch_size": 3,
    "search_budget": 200,
    "minibatch_temperature": 0.7,
}
WAVES: Final[Mapping[str, Any]] = {**_ANSWERS, "algorithms": ["p2o"], "p2o": _WAVES}
STREAM: Final[Mapping[str, Any]] = {
    **_ANSWERS,
    "algorithms": ["stream"],
    "stream": {"tau": 0.01},
}
INSPO: Final[Mapping[str, Any]] = {
    **_ANSWERS,
    "algorithms": ["inspo"],
    "inspo": {
        "instruction": "note remember",
        "population_size": 3,
        "prune_every": 2,
        "evolve_every": 3,
        "verify_size": 3,
        "candidates_per_call": 2,
        "rounds": 1,
    },
}


def ray_variants(checkpointing: str) -> tuple[Variant, ...]:
    """What the adapters with Ray and vLLM both try; the argument is the host's."""
    return (
        Variant("p2o", "P2O, bf16, vLLM", WAVES),
        Variant("stream", "stream", STREAM),
        Variant("inspo", "INSPO", INSPO),
        Variant("checkpointing", "P2O, gradient checkpointing", WAVES, (checkpointing,)),
    )


def method_and_file(variant: Variant, folder: Path) -> tuple[str, Path]:
    """Write the variant's settings into the folder; return the method's flag and the file."""
    file = folder / "coevo.yaml"
    file.write_text(json.dumps(variant.coevo, indent=1), "utf-8")  # JSON is YAML
    (method,) = variant.coevo["algorithms"]
    return method, file


def ours(metrics: Mapping[str, float], prefix: str) -> dict[str, float]:
    """Those whose names begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in metrics.items()
        if name.startswith(prefix)
    }
