"""The arms of the demo: plain GRPO and the methods. The command line reads their names, so nothing heavy is
imported here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON

BUDGET: Final = 24_576
"""Rollouts of a run: 128 steps, or eight epochs if all rollouts are training's."""
LEARNING_RATE: Final = 4e-4
POINTS: Final = 8
"""Points of a curve, besides the one at the beginning."""
QUESTIONS: Final = 512
GROUP_SIZE: Final = 6
QUESTIONS_PER_STEP: Final = 32
ROLLOUTS_PER_STEP: Final = GROUP_SIZE * QUESTIONS_PER_STEP

FIRST_INSTRUCTION: Final = "<first instruction>"
"""Placeholder in an arm's values for INSPO's first instruction, which depends on the world."""


@dataclass(frozen=True)
class Arm:
    """One way to train. Without settings it is the bare trainer."""

    label: str
    values: Mapping[str, JSON] | None = None

    @property
    def coevolves(self) -> bool:
        return self.values is not None


INSPO: Final[Mapping[str, JSON]] = {
    "instruction": FIRST_INSTRUCTION,
    "evolve_until": 100,
    "verify_size": 64,
    "rounds": 1,
}
"""INSPO's settings for a run of 128 steps."""


def stream_arm(label: str, **changes: JSON) -> Arm:
    """Build an arm of the stream with its defaults; a question is hard if all its rollouts fail."""
    return Arm(label, {"ground_truth_column": "answer", **changes, "stream": {"tau": 0.01}})


def p2o_arm(label: str, **p2o: JSON) -> Arm:
    """Build an arm of P2O, scaled to this world."""
    return Arm(label, {"preset": "demo-p2o", "p2o": {"calls_per_hard": "unlimited", **p2o}})


def inspo_arm(label: str, **inspo: JSON) -> Arm:
    """Build an arm of INSPO on the schedule of a run of 128 steps."""
    return Arm(label, {"preset": "demo-inspo", "inspo": {**INSPO, **inspo}})


ARMS: Final[Mapping[str, Arm]] = {
    "grpo": Arm("GRPO"),
    "stream": stream_arm("stream"),
    "p2o": p2o_arm("P2O"),
    "static": inspo_arm("static instruction", evolution="off", paraphrase=False),
    "inspo": inspo_arm("INSPO"),
    "both": Arm(
        "INSPO and stream",
        {
            "preset": "demo-inspo",
            "algorithms": ["inspo", "stream"],
            "inspo": INSPO,
            "stream": {"tau": 0.01},
        },
    ),
}


def arm(name: str, known: Mapping[str, Arm] = ARMS) -> Arm:
    """Return the arm of this name. Raise SettingsError with the known names for any other."""
    if name not in known:
        raise SettingsError(f"there is no arm {name!r}; known: {', '.join(known)}")
    return known[name]
