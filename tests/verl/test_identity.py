"""Check that nothing but the flag changes anything.

Without the plugin loaded at all, as if the package were not installed; with it loaded; and with the flag
while there is nothing to do: the same rows and the same weights. Stand-ins: platform, rollout server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.same_runs import check_same_rows, rows_by
from helpers.verl_run import Result, run_verl

pytestmark = pytest.mark.long

OVERRIDES = ["trainer.test_freq=2", "reward.custom_reward_function.name=distinct_words"]


def check_same(one: Result, other: Result) -> None:
    """Compare the rows, the weights and the names of the metrics."""
    exact = ("global_steps", "prompts", "responses")
    near = ("log_probs", "old_log_probs", "rollout_log_probs", "advantages")
    check_same_rows(rows_by(one.actor, exact, near), rows_by(other.actor, exact, near))
    for weights, others in zip(one.weights(), other.weights(), strict=True):
        assert weights["global_steps"] == others["global_steps"]
        assert weights["checksum"] == pytest.approx(others["checksum"], abs=0.01)
    assert names(one) == names(other)


def names(result: Result) -> set[str]:
    return {name for values in result.metrics.values() for name in values if "coevo/" not in name}


def test_a_run_without_the_flag_is_one_without_the_package(tmp_path: Path) -> None:
    without = run_verl(
        tmp_path / "without", overrides=OVERRIDES, env={"VERL_USE_EXTERNAL_PLUGINS": "none"}
    )
    unflagged = run_verl(tmp_path / "unflagged", overrides=OVERRIDES)
    idle = run_verl(
        tmp_path / "idle",
        overrides=[
            "+coevo=p2o",
            *("coevo.reflection.model=openai/nobody", "coevo.preflight.reflection=off", *OVERRIDES),
        ],
    )
    for result in (without, unflagged, idle):
        assert result.returncode == 0, result.tail
    check_same(unflagged, without)
    check_same(idle, without)
    assert not (tmp_path / "unflagged/checkpoints/coevo").exists()
    assert idle.metrics[2]["coevo/train_rollouts"] == 32
