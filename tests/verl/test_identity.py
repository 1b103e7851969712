"""Nothing but the flag changes anything.

Without the plugin loaded at all, as if the package were not installed; with it loaded; and with the flag
while there is nothing to do: the same rows and the same weights. Stand-ins: platform, rollout server.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers.verl_run import Result, run_verl

pytestmark = pytest.mark.long

OVERRIDES = ["trainer.test_freq=2", "reward.custom_reward_function.name=distinct_words"]


def fingerprint(result: Result) -> tuple[Any, ...]:
    """Rounded: uids are random, and sums over the rows in another order differ in the last bits."""
    assert result.returncode == 0, result.tail
    names = ("log_probs", "old_log_probs", "rollout_log_probs", "advantages")
    rows = Counter(
        (
            row["global_steps"],
            tuple(row["prompts"]),
            tuple(row["responses"]),
            *(tuple(round(value, 3) + 0.0 for value in row[name]) for name in names),
        )
        for row in result.actor
    )
    weights = [(event["global_steps"], round(event["checksum"], 2)) for event in result.weights()]
    names_of_metrics = {
        name for values in result.metrics.values() for name in values if "coevo/" not in name
    }
    return rows, weights, names_of_metrics


def test_a_run_without_the_flag_is_one_without_the_package(tmp_path: Path) -> None:
    without = run_verl(
        tmp_path / "without", overrides=OVERRIDES, env={"VERL_USE_EXTERNAL_PLUGINS": "none"}
    )
    unflagged = run_verl(tmp_path / "unflagged", overrides=OVERRIDES)
    idle = run_verl(
        tmp_path / "idle",
        overrides=["+coevo=p2o", "coevo.reflection.model=openai/nobody", *OVERRIDES],
    )
    assert fingerprint(unflagged) == fingerprint(without)
    assert fingerprint(idle) == fingerprint(without)
    assert not (tmp_path / "unflagged/checkpoints/coevo").exists()
    assert idle.metrics[2]["coevo/train_rollouts"] == 32
