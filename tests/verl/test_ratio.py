"""Check log-probs of distilled and other rows against hand-computed ones.

The learning rate is 0, so all log-probs are the base policy's and can be computed here. Stand-ins:
platform, rollout server, teacher.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from helpers.base_policy import log_probs
from helpers.verl_run import Result, run_verl
from helpers.verl_world import P2O, by_group, reflection, sampled, teach
from standins.openai_server import openai_server

pytestmark = pytest.mark.long

FIRST_TEMPLATED_STEP = 3


def run(folder: Path, *overrides: str, drift: float = 0.0) -> Result:
    with openai_server(teach) as server:
        result = run_verl(
            folder,
            overrides=[
                *("+coevo=p2o", *P2O, *reflection(server.base), "coevo.p2o.dev_size=4"),
                "actor_rollout_ref.actor.optim.lr=0",
                "actor_rollout_ref.actor.optim.weight_decay=0",
                "trainer.total_epochs=2",
                "reward.custom_reward_function.name=compute_score",
                *overrides,
            ],
            env={"OPENAI_API_KEY": "sk-test", "COEVO_TEST_DRIFT": str(drift)},
        )
    assert result.returncode == 0, result.tail
    return result


def rows(result: Result) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return distilled rows, each with its sampling prompt as `under`, and all others."""
    distilled, plain = [], []
    for (step, _), group in by_group(result.actor).items():
        for row in group:
            under = {tuple(event["prompt_ids"]) for event in sampled(result, row)}
            other = [list(prompt) for prompt in under if list(prompt) != row["prompts"]]
            if step >= FIRST_TEMPLATED_STEP and len(under) == 1 and other:
                distilled.append({**row, "under": other[0]})
            elif not other:
                plain.append(row)
    assert distilled
    assert plain
    return distilled, plain


def close(values: list[float]) -> Any:
    return pytest.approx(values, abs=1e-4)


def test_a_kl_in_the_reward_and_a_correction_are_on_the_question(tmp_path: Path) -> None:
    """All weights stay the reference's, so the KL and VeRL's correction for its sampler are 0."""
    ref = "actor_rollout_ref.ref"
    precisions = ("param_dtype", "reduce_dtype", "buffer_dtype")
    result = run(
        tmp_path,
        "algorithm.use_kl_in_reward=True",
        "algorithm.kl_ctrl.kl_coef=1.0",
        "algorithm.rollout_correction.rollout_is=token",
        f"{ref}.log_prob_micro_batch_size_per_gpu=16",
        *(f"+{ref}.fsdp_config.mixed_precision.{name}=fp32" for name in precisions),
    )
    distilled, plain = rows(result)
    penalties = [step["actor/reward_kl_penalty"] for step in result.metrics.values()]
    assert penalties == pytest.approx([0.0] * len(penalties), abs=1e-4)
    for row in [*distilled, *plain]:
        assert row["old_log_probs"] == close(log_probs(row["prompts"], row["responses"]))
        weights = row["rollout_is_weights"]
        assert weights == pytest.approx([1.0] * len(row["responses"]), abs=1e-3)


def test_a_forward_under_the_template_corrects_the_sampler_in_distilled_rows(
    tmp_path: Path,
) -> None:
    """The sampler's log-probs are all above the trainer's; the resulting weight is equal in all rows."""
    drift = 0.25
    result = run(
        tmp_path,
        "coevo.distill_forward=True",
        "algorithm.rollout_correction.rollout_is=token",
        drift=drift,
    )
    distilled, plain = rows(result)
    effects = []
    for row in [*distilled, *plain]:
        on_question = log_probs(row["prompts"], row["responses"])
        under = log_probs(row["under"], row["responses"]) if "under" in row else on_question
        assert row["old_log_probs"] == close(on_question)
        weights = row["rollout_is_weights"]
        assert weights == pytest.approx([math.exp(-drift)] * len(weights), abs=1e-3)
        effects += [a - b for a, b in zip(under, on_question, strict=True) if "under" in row]
    name = "coevo/template_logp_difference"
    told = [step[name] for step in result.metrics.values() if name in step]
    assert len(told) > 0
    assert min(told) <= sum(effects) / len(effects) <= max(told)
