"""Check that distillation leaves no trace: with completions that do not depend on the prompt, a run with
templates trains on the rows of the bare trainer, and ends no further from it than another bare run.

With several updates a step two bare runs differ already: which rows share a mini-batch is decided by the
order in which they arrive.

Stand-ins: platform, rollout server, which answers by a fixed sequence.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from helpers.same_runs import check_no_further, check_same_rows, furthest, rows_by
from helpers.verl_run import Result, run_verl

pytestmark = pytest.mark.long

ACTOR, REF = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
PRECISIONS = ("param_dtype", "reduce_dtype", "buffer_dtype")


def run(folder: Path, *overrides: str) -> Result:
    result = run_verl(
        folder,
        overrides=[
            "reward.custom_reward_function.name=distinct_words",
            *("trainer.total_epochs=2", "trainer.save_freq=2", "data.shuffle=False"),
            *overrides,
        ],
        env={"COEVO_TEST_SCRIPT": "helpers.ghosts:say"},
    )
    assert result.returncode == 0, result.tail
    return result


def weights(result: Result, step: int = 4) -> dict[str, torch.Tensor]:
    """Return the policy's weights after so many steps."""
    (path,) = result.folder.glob(f"checkpoints/global_step_{step}/actor/model_*_rank_0.pt")
    found = torch.load(path, weights_only=False)
    return {name: getattr(one, "_local_tensor", one) for name, one in found.items()}


@pytest.mark.parametrize(
    "options",
    [
        (),
        (
            f"{ACTOR}.use_kl_loss=True",
            f"{ACTOR}.kl_loss_coef=0.1",
            f"{REF}.log_prob_micro_batch_size_per_gpu=16",
            *(f"+{REF}.fsdp_config.mixed_precision.{name}=fp32" for name in PRECISIONS),
        ),
        (
            f"{ACTOR}.use_dynamic_bsz=True",
            f"{ACTOR}.ppo_max_token_len_per_gpu=256",
            f"{ACTOR}.policy_loss.loss_mode=gspo",
        ),
    ],
    ids=["plain", "KL", "dynamic GSPO"],
)
def test_templates_leave_no_trace(options: tuple[str, ...], tmp_path: Path) -> None:
    bare = run(tmp_path / "bare", *options)
    again = run(tmp_path / "again", *options)
    method = ("+coevo=stream", "coevo.algorithms=[helpers.ghosts:HALF]")
    templated = run(tmp_path / "templated", *method, *options)
    under = {tuple(event["prompt_ids"]) for event in templated.generated()}
    assert under - {tuple(event["prompt_ids"]) for event in bare.generated()}
    exact = ("global_steps", "prompts", "responses", "response_mask")
    near = ("log_probs", "old_log_probs", "advantages")
    check_same_rows(rows_by(templated.actor, exact, near), rows_by(bare.actor, exact, near))
    end = weights(bare)
    check_no_further(
        furthest(weights(templated), end),
        furthest(weights(again), end),
        furthest(weights(bare, step=2), end),
    )
