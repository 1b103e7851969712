"""Check that distillation leaves no trace: with completions that do not depend on the prompt, a run with
templates trains on the rows of the bare trainer, and ends no further from it than another bare run.
There is no correction of the sampler here: it corrects plain rows alone.

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


def run(folder: Path, *overrides: str, gpus: int = 1) -> Result:
    result = run_verl(
        folder,
        gpus=gpus,
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
    """Return the policy's weights after so many steps: what each rank holds of them."""
    paths = result.folder.glob(f"checkpoints/global_step_{step}/actor/model_*_rank_*.pt")
    return {
        f"{path.name} {name}": getattr(one, "_local_tensor", one)
        for path in paths
        for name, one in torch.load(path, weights_only=False).items()
    }


COLUMNS = (
    ("global_steps", "prompts", "responses", "response_mask"),
    ("log_probs", "old_log_probs", "advantages"),
)


def check(folder: Path, method: str, options: tuple[str, ...], **where: int) -> None:
    """Compare a run under templates with two bare ones: its rows, and how far it ends from them."""
    bare = run(folder / "bare", *options, **where)
    again = run(folder / "again", *options, **where)
    ours = ("+coevo=stream", f"coevo.algorithms=[helpers.ghosts:{method}]")
    templated = run(folder / "templated", *ours, *options, **where)
    under = {tuple(event["prompt_ids"]) for event in templated.generated()}
    assert under - {tuple(event["prompt_ids"]) for event in bare.generated()}
    end = weights(bare)
    check_no_further(
        furthest(weights(templated), end),
        furthest(weights(again), end),
        furthest(weights(bare, step=2), end),
    )
    check_same_rows(rows_by(templated.actor, *COLUMNS), rows_by(bare.actor, *COLUMNS))


DYNAMIC = (f"{ACTOR}.use_dynamic_bsz=True", f"{ACTOR}.ppo_max_token_len_per_gpu=256")


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
        (*DYNAMIC, f"{ACTOR}.policy_loss.loss_mode=gspo"),
        (
            "actor_rollout_ref.model.use_remove_padding=True",
            *DYNAMIC,
            f"{ACTOR}.policy_loss.loss_mode=cispo",
            "actor_rollout_ref.rollout.agent.num_workers=8",
        ),
        (
            "algorithm.filter_groups.enable=True",
            "algorithm.filter_groups.metric=reward",
            "reward.reward_manager.name=dapo",
            "+reward.reward_kwargs.max_resp_len=18",
            "+reward.reward_kwargs.overlong_buffer_cfg={enable:True,len:6,penalty_factor:0.5,log:False}",
        ),
    ],
    ids=[
        "plain",
        "KL",
        "dynamic GSPO",
        "padding removal, CISPO, 8 workers",
        "filter, overlong",
    ],
)
def test_templates_leave_no_trace(options: tuple[str, ...], tmp_path: Path) -> None:
    check(tmp_path, "HALF", options)


def test_nor_with_two_ranks(tmp_path: Path) -> None:
    """One server, because each counts for itself what it was asked."""
    both = ("trainer.n_gpus_per_node=2", "actor_rollout_ref.rollout.tensor_model_parallel_size=2")
    check(tmp_path, "HALF", (*both, *DYNAMIC), gpus=2)


def test_a_trace_is_found(tmp_path: Path) -> None:
    """One row of 64 keeps its template."""
    with pytest.raises(AssertionError, match="distance"):
        check(tmp_path, "HALF_AND_ONE", ())
