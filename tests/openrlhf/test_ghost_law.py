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


COLUMNS = (
    ("step", "sequences", "action_mask"),
    ("log_probs", "action_log_probs", "advantages"),
)


def check(folder: Path, method: str, options: tuple[str, ...]) -> None:
    """Compare a run under templates with two bare ones: its rows, and how far it ends from them."""
    bare = run(folder / "bare", *options)
    again = run(folder / "again", *options)
    ours = ("--coevo.algorithms", f"helpers.ghosts:{method}")
    templated = run(folder / "templated", *ours, *options)
    distilled = [row for row in templated.actor if row["info"].get("coevo_distilled")]
    assert 0 < len(distilled) < len(templated.actor)
    end = weights(bare.folder / "model")
    check_no_further(
        furthest(weights(templated.folder / "model"), end),
        furthest(weights(again.folder / "model"), end),
        furthest(weights(base_policy_path()), end),
    )
    check_same_rows(rows_by(templated.actor, *COLUMNS), rows_by(bare.actor, *COLUMNS))


PACKED = ("--ds.packing_samples", "--train.dynamic_batch_enable", "--train.max_tokens_per_gpu=160")
RANKS = (
    *("--actor.num_gpus_per_node=2", "--vllm.num_engines=2"),
    *("--rollout.micro_batch_size=4", "--train.micro_batch_size=4"),
)


@pytest.mark.parametrize(
    "options",
    [
        (),
        PACKED,
        ("--algo.kl.use_loss", "--algo.kl.init_coef=1e-2", "--algo.kl.estimator=k3"),
        (*RANKS, "--ds.zero_stage=3"),
    ],
    ids=["plain", "packed", "KL", "two ranks, ZeRO 3"],
)
def test_templates_leave_no_trace(options: tuple[str, ...], tmp_path: Path) -> None:
    check(tmp_path, "HALF", options)


def test_a_trace_is_found(tmp_path: Path) -> None:
    """One row of 64 keeps its template."""
    with pytest.raises(AssertionError, match="distance"):
        check(tmp_path, "HALF_AND_ONE", ())
