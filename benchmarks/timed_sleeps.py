"""Time steps of the real engine that sleep instead of training.

This looks like a trainer whose GPU is at work, and the numbers do not depend on the machine's load.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from methods.tabular_world import WORLDS, TabularPolicy, World

from prompt_coevo import Coevolution, Settings

STEP_S: Final = 0.15
QUESTIONS: Final = 2
GROUP: Final = 6


def seconds(folder: str, settings: Mapping[str, Any], steps: int) -> list[float]:
    """Return how long every step took."""
    policy = TabularPolicy(World(WORLDS["1"], 0), 0, rate=0.0)
    engine = Coevolution.from_settings(Settings(**settings), output_dir=Path(folder))
    engine.begin(policy)
    ids = policy.question_ids()
    taken = []
    for step in range(steps):
        began = time.perf_counter()
        plan = engine.plan(
            [ids[(QUESTIONS * step + n) % len(ids)] for n in range(QUESTIONS)], GROUP
        )
        policy.version = engine.policy_version
        time.sleep(STEP_S)
        engine.observe(policy.train(plan))
        engine.step_end(policy, last=step == steps - 1)
        taken.append(time.perf_counter() - began)
    engine.end(policy)
    return taken
