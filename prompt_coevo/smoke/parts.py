"""Parts of every adapter's smoke: variants, their settings, and a run's results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from prompt_coevo.lines import JSON

GROUP: Final = 4
"""Rollouts per question."""
QUESTIONS: Final = 16
QUESTIONS_PER_STEP: Final = 4
ROLLOUTS_PER_STEP: Final = GROUP * QUESTIONS_PER_STEP
EPOCHS: Final = 3
STEPS: Final = EPOCHS * QUESTIONS // QUESTIONS_PER_STEP
PROMPT_TOKENS: Final = 200
"""Together with a completion this stays below the policy's 256 positions."""
LEARNING_RATE: Final = 4e-4

Command: TypeAlias = tuple[Sequence[str], Mapping[str, str]]
"""A command to start, and additional environment variables."""

Course: TypeAlias = Literal["once", "resume", "ghost", "speed"]
"""The runs of a variant.

`once`: one. `resume`: one that is killed after its first checkpoint and started again. `ghost`: two of the
bare trainer and one with half of each group under templates, all on the same made-up completions. `speed`:
one without the plugin and one with it.
"""


@dataclass(frozen=True)
class Variant:
    """One way to train."""

    name: str
    says: str
    """Description in the table: what is special about it."""

    coevo: Mapping[str, Any]
    """Settings of this package, nested. Empty: the bare trainer."""

    host: tuple[str, ...] | Mapping[str, JSON] = ()
    """Additional configuration of the trainer: arguments, or values by name."""

    packages: tuple[str, ...] = ()
    """Packages needed besides the adapter's."""

    on_cpu: bool = False
    """True if it can run without a GPU."""

    gpus: int = 1
    """Number of GPUs needed, or of processes on a CPU."""

    course: Course = "once"


@dataclass(frozen=True)
class Evidence:
    """The results of a run that ended without error, read from its files."""

    losses: Sequence[float]
    """One per step."""

    gradients: Sequence[float]
    """Gradient norms, one per step."""

    metrics: Mapping[str, float]
    """This package's metrics at the last step, without `coevo/`."""

    templated: float
    """The largest fraction of a step's rollouts under a template."""

    prompts: int | None = None
    """Number of trained prompts compared with the questions; None if the trainer does not expose them."""

    strangers: int = 0
    """Number of these prompts that are not a question as it stands in the dataset."""

    difference: float | None = None
    """Difference between sampler and trainer in rows without a template; None if not measured."""

    measure: str = ""
    """The quantity that `difference` measures."""

    seconds: Sequence[float] = ()
    """Duration of the steps, without some at the start."""

    before: int = 0
    """Number of steps that the checkpoint had, from which the run was resumed."""


@dataclass(frozen=True)
class Adapter:
    """The smoke tests of one adapter: what they need, how to prepare each run and how to read it."""

    name: str
    title: str
    packages: tuple[str, ...]
    """Packages that every variant needs."""

    install: Mapping[str, str]
    """What to pass to `pip install`, by package."""

    variants: tuple[Variant, ...]
    prepare: Callable[[Variant, Path, bool], Command]
    """Writes the variant's input files into its folder and returns the command; the last argument is true
    on a CPU."""

    read: Callable[[Variant, Path], Evidence]
    """Reads the results. Raises OSError, KeyError or ValueError if some are missing from the folder."""

    saved: str
    """Pattern of the file that completes a checkpoint."""

    weights: str
    """The file of a ghost's trained policy."""


# This package's settings, the same for every adapter.

_ANSWERS: Final[Mapping[str, JSON]] = {
    "reflection": {"function": "prompt_coevo.smoke.world.answer"},
    "preflight": {"reflection": "off"},
    "seed": 0,
}
_WAVES: Final[Mapping[str, JSON]] = {
    "overspend": "never",
    "tau": 2.0,  # above every reward: all questions are hard, so every epoch ends with a search
    "dev_size": 8,
    "minibatch_size": 3,
    "search_budget": 200,
    "minibatch_temperature": 0.7,
}
WAVES: Final[Mapping[str, JSON]] = {**_ANSWERS, "algorithms": ["p2o"], "p2o": _WAVES}
STREAM: Final[Mapping[str, JSON]] = {
    **_ANSWERS,
    "algorithms": ["stream"],
    "stream": {"tau": 0.01},
}
INSPO: Final[Mapping[str, JSON]] = {
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
HALF: Final = "prompt_coevo.smoke.ghost:HALF"
GHOST: Final[Mapping[str, JSON]] = {**_ANSWERS, "algorithms": [HALF]}
SAVE_STEPS: Final = STEPS // 2
"""Steps between two checkpoints of `resume`."""


def ray_variants(checkpointing: str) -> tuple[Variant, ...]:
    """Return the variants common to the adapters with Ray and vLLM; the argument is the trainer's."""
    return (
        Variant("p2o", "P2O, bf16, vLLM", WAVES),
        Variant("stream", "stream", STREAM),
        Variant("inspo", "INSPO", INSPO),
        Variant("checkpointing", "P2O, gradient checkpointing", WAVES, (checkpointing,)),
    )


def method_and_file(variant: Variant, folder: Path) -> tuple[str, Path]:
    """Write the variant's settings into the folder. Return the method's flag and the file.

    A method from outside has no flag; `algorithms` must be given beside another one's.
    """
    file = folder / "coevo.yaml"
    file.write_text(json.dumps(variant.coevo, indent=1), "utf-8")  # JSON is YAML
    (method,) = variant.coevo["algorithms"]
    return "stream" if ":" in method else method, file


def ours(metrics: Mapping[str, float], prefix: str) -> dict[str, float]:
    """Return the metrics whose names begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in metrics.items()
        if name.startswith(prefix)
    }
