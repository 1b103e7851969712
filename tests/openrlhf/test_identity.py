"""Nothing but our flags changes anything.

OpenRLHF's own command, the wrapper without a flag, and the wrapper with one while there is nothing to do:
the same rows, weights and metrics. Stand-ins: vLLM, flash-attn, the device.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from helpers.openrlhf_run import TASKS, Result, rows, run_openrlhf

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


def fingerprint(result: Result) -> tuple[Any, ...]:
    """Rounded: sums over the rows in another order differ in the last bits."""
    names = ("log_probs", "action_log_probs", "rollout_log_probs", "advantages")
    trained = Counter(
        (
            row["step"],
            tuple(row["sequences"]),
            tuple(row["action_mask"]),
            *(tuple(round(value, 3) + 0.0 for value in row[name]) for name in names),
        )
        for row in result.actor
    )
    weights = [(event["version"], round(event["checksum"], 2)) for event in result.weights()]
    metrics = {
        (step, name)
        for step, values in result.metrics.items()
        for name in values
        if "coevo" not in name
    }
    return trained, weights, metrics


def furthest(*folders: Path) -> float:
    """The greatest difference between two saved policies' weights."""
    first, second = (load_file(folder / "model" / "model.safetensors") for folder in folders)
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def test_a_run_without_our_flags_is_one_of_openrlhf(tmp_path: Path) -> None:
    own = start(tmp_path / "own", "openrlhf.cli.train_ppo_ray")
    unflagged = start(tmp_path / "unflagged", WRAPPER)
    flags = ("--coevo.method", "p2o", "--coevo.reflection.model", "openai/nobody")
    idle = start(tmp_path / "idle", WRAPPER, *flags)
    assert fingerprint(unflagged) == fingerprint(own)
    difference = furthest(tmp_path / "own", tmp_path / "unflagged")
    assert difference <= 1e-5
    assert fingerprint(idle) == fingerprint(own)
    assert not (tmp_path / "unflagged/checkpoints/coevo").exists()
    assert idle.metrics[2]["train/coevo/train_rollouts"] == 32
