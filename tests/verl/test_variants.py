"""What else VeRL can be told to do with a batch: REINFORCE++, LoRA, and activations computed twice.

One run, because each takes minutes. The learning rate is 0, so all log-probs are the base policy's and can
be computed here. Stand-ins: platform, rollout server, teacher.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from helpers.base_policy import log_probs
from helpers.verl_run import TASKS, Result, run_verl
from helpers.verl_world import P2O, by_group, reflection, sampled, teach, tokens
from standins.openai_server import openai_server

pytestmark = pytest.mark.long

STEPS = 4
ACTOR, MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.model"
LORA = (
    f"{MODEL}.lora_rank=4",
    f"{MODEL}.lora_alpha=8",
    f"{MODEL}.target_modules=all-linear",
    f"{MODEL}.lora.merge=True",
)
STILL = (f"{ACTOR}.optim.lr=0", f"{ACTOR}.optim.weight_decay=0")
AGAIN = (f"{MODEL}.enable_gradient_checkpointing=True",)
REINFORCE = ("algorithm.adv_estimator=reinforce_plus_plus",)


def run(folder: Path, *overrides: str) -> Result:
    """Two epochs, with a search between them."""
    with openai_server(teach) as server:
        result = run_verl(
            folder,
            overrides=[
                *("+coevo=p2o", *P2O, *reflection(server.base), "coevo.p2o.dev_size=4"),
                *("trainer.total_epochs=2", *overrides),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert result.returncode == 0, result.tail
    assert sorted(result.metrics) == list(range(1, STEPS + 1))
    for metrics in result.metrics.values():
        check_finite(metrics)
    assert result.metrics[STEPS]["coevo/searches"] == 1
    check_on_question(result)
    return result


def check_finite(metrics: Mapping[str, float]) -> None:
    assert [name for name, value in metrics.items() if not math.isfinite(value)] == []


def check_on_question(result: Result) -> None:
    """Every row is trained on a bare question, and some were sampled under a template."""
    questions = [tokens(task.question) for task in TASKS]
    under_template = 0
    for group in by_group(result.actor).values():
        for row in group:
            assert row["prompts"] in questions
            assert row["input_ids"] == row["prompts"] + row["responses"]
            under = [event["prompt_ids"] for event in sampled(result, row)]
            under_template += bool(under) and row["prompts"] not in under
    assert under_template > 0


def test_lora_and_reinforce_are_trained_on_the_question(tmp_path: Path) -> None:
    """All log-probs are those of a forward pass on it."""
    result = run(tmp_path, *STILL, *LORA, *AGAIN, *REINFORCE)
    for (step, _), group in by_group(result.actor).items():
        distilled = result.metrics[step]["coevo/templated_fraction"] == 1.0
        for row in group:
            on_question = pytest.approx(log_probs(row["prompts"], row["responses"]), abs=1e-4)
            assert row["old_log_probs"] == on_question
            assert row["log_probs"] == on_question
            if distilled:  # in other rows they are the sampler's, whose merged weights VeRL rounds
                assert row["rollout_log_probs"] == on_question
            assert all(map(math.isfinite, row["advantages"]))
    assert any(metrics["actor/grad_norm"] > 0 for metrics in result.metrics.values())
