"""What the smoke of every door is made of: variants, the command of one, and what a run leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

GROUP: Final = 4
"""Rollouts of a question."""
QUESTIONS: Final = 16
QUESTIONS_PER_STEP: Final = 4
EPOCHS: Final = 3
STEPS: Final = EPOCHS * QUESTIONS // QUESTIONS_PER_STEP
PROMPT_TOKENS: Final = 200
COMPLETION_TOKENS: Final = 18
"""Together less than the 256 positions of the policy. The longest right answer has 17 tokens."""
LEARNING_RATE: Final = 4e-4


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
    """What must be installed besides what the door needs."""

    gpus: int = 1
    on_cpu: bool = False
    """Whether it can run without any GPU."""


@dataclass(frozen=True)
class Place:
    """Where and how a variant runs."""

    folder: Path
    """Of this variant; everything that it writes is below it."""

    cpu: bool = False


@dataclass(frozen=True)
class Command:
    """A process to start, and what its environment has besides."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


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
class Door:
    """The smoke of one door."""

    name: str
    title: str
    packages: tuple[str, ...]
    """Without which nothing of it runs."""

    install: Mapping[str, str]
    """By package: what to give to `pip install`."""

    variants: tuple[Variant, ...]
    prepare: Callable[[Variant, Place], Command]
    """Writes what the variant's process needs, and says how it is started."""

    read: Callable[[Variant, Place], Evidence]
    """Raises OSError, KeyError or ValueError if the run did not leave what it should."""


# The settings of the package, the same for every door.

_ANSWERS: Final = {
    "reflection": {"function": "prompt_coevo.smoke.world.answer"},
    "preflight": {"reflection": "off"},
    "seed": 0,
}
_WAVES: Final = {
    "search_backend": "waves",
    "tau": 2.0,  # above every reward: all questions are hard, so every epoch ends with a search
    "dev_size": 8,
    "minibatch_size": 3,
    "search_budget": 200,
    "minibatch_temperature": 0.7,
}
WAVES: Final[Mapping[str, Any]] = {**_ANSWERS, "algorithms": ["p2o"], "p2o": _WAVES}
STREAM: Final[Mapping[str, Any]] = {
    **_ANSWERS,
    "algorithms": ["p2o"],
    "p2o": {"search_backend": "stream", "tau": 0.01},
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
BAND: Final[Mapping[str, Any]] = {**WAVES, "distill_ratio": "band"}
TEMPLATED: Final[Mapping[str, Any]] = {**WAVES, "distill_ratio": "templated"}


def ray_variants(checkpointing: tuple[str, ...]) -> tuple[Variant, ...]:
    """What the doors with Ray and vLLM both try; the arguments are those of the host."""
    return (
        Variant("p2o", "P2O, the paper's search, bf16, vLLM", WAVES),
        Variant("stream", "P2O, the streaming search", STREAM),
        Variant("inspo", "INSPO", INSPO),
        Variant("band", 'distill_ratio = "band"', BAND),
        Variant("templated", 'distill_ratio = "templated"', TEMPLATED),
        Variant("checkpointing", "P2O, gradient checkpointing", WAVES, checkpointing),
    )


def ours(metrics: Mapping[str, float], prefix: str) -> dict[str, float]:
    """Those whose names begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in metrics.items()
        if name.startswith(prefix)
    }


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found
