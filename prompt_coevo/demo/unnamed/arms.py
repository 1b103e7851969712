"""The arms for a real language model, and the length of a run. The command line reads this, so nothing
heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prompt_coevo.demo.arms import Arm
from prompt_coevo.errors import SettingsError
from prompt_coevo.machine import computes_bfloat16, free_memory, shown

GROUP_SIZE: Final = 8
QUESTIONS_PER_STEP: Final = 4
ROLLOUTS_PER_STEP: Final = GROUP_SIZE * QUESTIONS_PER_STEP
BUDGET: Final = 88 * ROLLOUTS_PER_STEP
"""Rollouts of a run: four epochs, if all rollouts are training's."""
POINTS: Final = 4
"""Points of a curve, besides the one at the beginning."""
MINUTES: Final = 26
"""Approximate minutes of a CPU core per run."""
MINUTES_IN_FLOAT32: Final = 60
"""The same without bfloat16 in hardware."""
MEMORY: Final = 5_500_000_000
"""Approximate bytes per run."""
MEMORY_IN_FLOAT32: Final = 7_100_000_000
"""The same without bfloat16 in hardware."""

ARMS: Final[Mapping[str, Arm]] = {
    "grpo": Arm("GRPO"),
    "stream": Arm("stream", {}),
    # Scaled as in the demo's other world: a search may cost four tenths of an epoch.
    "p2o": Arm("P2O", {"preset": "demo-p2o", "p2o": {"search_budget": 280, "dev_size": 16}}),
}


def minutes() -> int:
    """Return the approximate minutes per run on a core of this machine."""
    return MINUTES if computes_bfloat16() else MINUTES_IN_FLOAT32


def memory() -> int:
    """Return the approximate bytes per run on this machine."""
    return MEMORY if computes_bfloat16() else MEMORY_IN_FLOAT32


def runs_in_memory(
    most: int, anyway: str = "--workers 1", *, one: int | None = None, free: int | None = None
) -> int:
    """Return how many runs of SmolLM2 fit into this machine's free memory, at most `most`; or runs of `one`
    bytes each into `free` bytes.

    Raises SettingsError if not even one fits; it names the option that tries `anyway`.
    """
    free, one = free_memory() if free is None else free, one or memory()
    if free is None:
        return most
    if free < one:
        raise SettingsError(
            f"a run needs at least {shown(one)} of memory, and {shown(free)} are free: close other "
            f"programs, or give {anyway} to try it all the same"
        )
    return min(most, free // one)
