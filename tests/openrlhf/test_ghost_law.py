"""Check that distillation leaves no trace: with completions that do not depend on the prompt, a run with
templates trains on the rows of the bare trainer, and ends no further from it than another bare run.

Stand-ins: vLLM, which answers by a fixed sequence, flash-attn, the device.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from helpers.openrlhf_run import Result, run_openrlhf
from helpers.same_runs import check_no_further, check_same_rows, furthest, rows_by
from worlds.pairs.world import base_policy_path

pytestmark = pytest.mark.long


def run(folder: Path, *flags: str) -> Result:
    result = run_openrlhf(
        folder,
        module="prompt_coevo.adapters.openrlhf",
        reward="distinct_words",
        overrides=["--train.num_episodes=2", *flags],
        env={"COEVO_TEST_SCRIPT": "helpers.ghosts:say"},
    )
    assert result.returncode == 0, result.tail
    return result


def weights(folder: Path) -> dict[str, Any]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--ds.packing_samples", "--train.dynamic_batch_enable", "--train.max_tokens_per_gpu=160"),
        ("--algo.kl.use_loss", "--algo.kl.init_coef=1e-2", "--algo.kl.estimator=k3"),
    ],
    ids=["plain", "packed", "KL"],
)
def test_templates_leave_no_trace(options: tuple[str, ...], tmp_path: Path) -> None:
    bare = run(tmp_path / "bare", *options)
    again = run(tmp_path / "again", *options)
    half = ("--coevo.algorithms", "helpers.ghosts:HALF")
    templated = run(tmp_path / "templated", *half, *options)
    distilled = [row for row in templated.actor if row["info"].get("coevo_distilled")]
    assert 0 < len(distilled) < len(templated.actor)
    exact = ("step", "sequences", "action_mask")
    near = ("log_probs", "action_log_probs", "advantages")
    check_same_rows(rows_by(templated.actor, exact, near), rows_by(bare.actor, exact, near))
    end = weights(bare.folder / "model")
    check_no_further(
        furthest(weights(templated.folder / "model"), end),
        furthest(weights(again.folder / "model"), end),
        furthest(weights(base_policy_path()), end),
    )
