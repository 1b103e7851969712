"""Check that nothing but our flags changes anything.

OpenRLHF's own command, the wrapper without a flag, and the wrapper with one while there is nothing to do
give the same rows, weights and metrics. Stand-ins: vLLM, flash-attn, the device.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from helpers.openrlhf_run import TASKS, Result, rows, run_openrlhf
from helpers.same_runs import check_same_rows, furthest, rows_by

pytestmark = pytest.mark.long

WRAPPER = "prompt_coevo.adapters.openrlhf"


def start(folder: Path, module: str, *flags: str) -> Result:
    result = run_openrlhf(
        folder,
        module=module,
        val=rows(TASKS[:2]),
        reward="distinct_words",
        overrides=["--algo.advantage.is_correction_level=token", "--eval.steps=2", *flags],
    )
    assert result.returncode == 0, result.tail
    return result


def check_same(one: Result, other: Result) -> None:
    """Compare the rows, the weights and the names of the metrics."""
    exact = ("step", "sequences", "action_mask")
    near = ("log_probs", "action_log_probs", "rollout_log_probs", "advantages")
    check_same_rows(rows_by(one.actor, exact, near), rows_by(other.actor, exact, near))
    for weights, others in zip(one.weights(), other.weights(), strict=True):
        assert weights["version"] == others["version"]
        assert weights["checksum"] == pytest.approx(others["checksum"], abs=0.01)
    assert names(one) == names(other)


def names(result: Result) -> set[tuple[int, str]]:
    return {
        (step, name)
        for step, values in result.metrics.items()
        for name in values
        if "coevo" not in name
    }


def test_a_run_without_our_flags_is_one_of_openrlhf(tmp_path: Path) -> None:
    own = start(tmp_path / "own", "openrlhf.cli.train_ppo_ray")
    unflagged = start(tmp_path / "unflagged", WRAPPER)
    flags = ("--coevo.method", "p2o")
    model = ("--coevo.reflection.model", "openai/nobody", "--coevo.preflight.reflection", "off")
    idle = start(tmp_path / "idle", WRAPPER, *flags, *model)
    check_same(unflagged, own)
    ends = [tmp_path / name / "model" / "model.safetensors" for name in ("own", "unflagged")]
    difference = furthest(*map(load_file, ends))
    assert difference <= 1e-5
    check_same(idle, own)
    assert not (tmp_path / "unflagged/checkpoints/coevo").exists()
    assert idle.metrics[2]["train/coevo/train_rollouts"] == 32
