"""Check other ways VeRL trains on a batch: REINFORCE++, LoRA, activation checkpointing, several updates, a
critic, and bf16.

Each run takes minutes. Where the learning rate is 0 all log-probs and values are those of the weights that
the run began with, and can be computed here. Stand-ins: platform, rollout server, teacher.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForTokenClassification

from helpers.base_policy import log_probs
from helpers.verl_run import TASKS, Result, run_verl
from helpers.verl_world import P2O, TOKENIZER, by_group, reflection, sampled, teach, tokens
from standins.openai_server import openai_server
from worlds.pairs.world import base_policy_path

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
# It moves, but not before there is a reward, which is under templates.
LATER = (f"{ACTOR}.optim.weight_decay=0",)
AGAIN = (f"{MODEL}.enable_gradient_checkpointing=True",)
REINFORCE = ("algorithm.adv_estimator=reinforce_plus_plus",)
UPDATES = 4
SEVERAL_UPDATES = (
    f"{ACTOR}.ppo_epochs=2",
    f"{ACTOR}.ppo_mini_batch_size=2",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=8",
)
CRITIC = (
    "algorithm.adv_estimator=gae",
    "algorithm.gamma=0.9",
    "algorithm.lam=0.8",
    "critic.model.use_remove_padding=False",
    "critic.model.enable_gradient_checkpointing=False",
    "+critic.model.override_config.attn_implementation=eager",
    "critic.strategy=fsdp2",
    "critic.ppo_micro_batch_size_per_gpu=8",
    "critic.fsdp.use_torch_compile=False",
    *(
        f"+critic.fsdp.mixed_precision.{name}=fp32"
        for name in ("param_dtype", "reduce_dtype", "buffer_dtype")
    ),
)
BF16 = (f"{ACTOR}.fsdp_config.mixed_precision.param_dtype=bf16",)


def run(folder: Path, *overrides: str) -> Result:
    """Run two epochs, with a search between them."""
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


def check_no_correction(metrics: Mapping[str, float]) -> None:
    """Check that VeRL's correction finds no difference to the sampler, token by token."""
    # Of its log_ppl metrics one side is a mean in bf16 here.
    for name in ("kl", "k3_kl", "chi2_token"):
        assert metrics[f"rollout_corr/{name}"] == pytest.approx(0.0, abs=1e-6)


def check_on_question(result: Result) -> None:
    """Check that every row is trained on a bare question, and that some were sampled under a template."""
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
        metrics = result.metrics[step]
        if (
            metrics["coevo/templated_fraction"] == 1.0
        ):  # else VeRL rounds the sampler's merged weights
            check_no_correction(metrics)
        for row in group:
            on_question = pytest.approx(log_probs(row["prompts"], row["responses"]), abs=1e-4)
            assert row["old_log_probs"] == on_question
            assert row["log_probs"] == on_question
            assert all(map(math.isfinite, row["advantages"]))
    assert any(metrics["actor/grad_norm"] > 0 for metrics in result.metrics.values())


def test_all_updates_of_a_batch_have_the_old_log_probs_of_the_question(tmp_path: Path) -> None:
    """Two epochs over two mini-batches each: all compare with the weights before the first of them."""
    result = run(tmp_path, *LATER, *SEVERAL_UPDATES)
    first, distilled_by_base = by_base(result), 0
    for step in result.metrics:
        rows = [row for row in result.actor if row["global_steps"] == step]
        assert len(rows) == 2 * 16
        by_rollout: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            by_rollout[row["uid"], row["session_id"]].append(row)
        assert {len(passes) for passes in by_rollout.values()} == {2}
        for passes in by_rollout.values():
            assert passes[0]["old_log_probs"] == passes[1]["old_log_probs"]
        for row in rows[: len(rows) // UPDATES]:
            assert row["log_probs"] == pytest.approx(row["old_log_probs"], abs=1e-4)
        if step in first:
            for row in rows:
                on_question = log_probs(row["prompts"], row["responses"])
                assert row["old_log_probs"] == pytest.approx(on_question, abs=1e-4)
                distilled_by_base += result.metrics[step]["coevo/templated_fraction"] == 1.0
    assert distilled_by_base > 0
    assert further_from_old(result.actor, STEPS) > 1e-3


def by_base(result: Result) -> list[int]:
    """Return the steps that began with the base policy's weights: those before the first reward, and the
    one with it. Others follow."""
    version = {event["global_steps"]: event["checksum"] for event in result.weights()}
    assert version[STEPS] != version[STEPS - 1]
    return [step for step in result.metrics if version[step - 1] == version[0]]


def further_from_old(actor: list[dict[str, Any]], step: int) -> float:
    """Return the largest distance of a step's later updates from its old log-probs."""
    rows = [row for row in actor if row["global_steps"] == step]
    return max(
        abs(now - old)
        for row in rows[len(rows) // UPDATES :]
        for now, old in zip(row["log_probs"], row["old_log_probs"], strict=True)
    )


def test_a_critics_values_are_those_of_the_question(tmp_path: Path) -> None:
    """GAE uses them."""
    folder = tmp_path / "critic"
    values = save_critic(folder)
    result = run(
        tmp_path / "run",
        *(*STILL, *CRITIC, f"critic.model.path={folder}"),
        *("critic.optim.lr=0", "critic.optim.weight_decay=0"),
    )
    whitened: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for (step, _), group in by_group(result.actor).items():
        for row in group:
            on_question = values(row["prompts"], row["responses"])
            assert row["values"] == pytest.approx(on_question, abs=1e-4)
            reward = row["returns"][-1]
            assert reward in (pytest.approx(0, abs=1e-4), pytest.approx(1, abs=1e-4))
            expected = gae(on_question, reward)
            returns = [a + v for a, v in zip(expected, on_question, strict=True)]
            assert row["returns"] == pytest.approx(returns, abs=1e-3)
            whitened[step] += zip(row["advantages"], expected, strict=True)
    for pairs in whitened.values():
        assert correlation(pairs) == pytest.approx(1, abs=1e-3)
    for metrics in result.metrics.values():
        assert metrics["critic/vf_loss"] > 0
        assert metrics["critic/grad_norm"] > 0


def save_critic(folder: Path) -> Callable[[list[int], list[int]], list[float]]:
    """Save the base policy with a value head whose values differ by token; return how to compute them."""
    torch.manual_seed(0)
    model = AutoModelForTokenClassification.from_pretrained(
        base_policy_path(), num_labels=1, dtype=torch.float32
    ).eval()
    torch.nn.init.normal_(model.score.weight, std=0.1)
    model.save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)

    def values(prompt: list[int], response: list[int]) -> list[float]:
        with torch.no_grad():
            logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1, 0]
        return logits.tolist()  # type: ignore[no-any-return]

    return values


def gae(values: list[float], reward: float) -> list[float]:
    """Compute generalised advantages of one response with its reward at the end."""
    advantages: list[float] = []
    later, following = 0.0, 0.0
    rewards = [0.0] * (len(values) - 1) + [reward]
    for value, got in zip(reversed(values), reversed(rewards), strict=True):
        later = got + 0.9 * following - value + 0.9 * 0.8 * later
        following = value
        advantages.append(later)
    return advantages[::-1]


def correlation(pairs: list[tuple[float, float]]) -> float:
    return float(torch.corrcoef(torch.tensor(pairs).T)[0, 1])


def test_in_bf16_it_trains_on_the_question(tmp_path: Path) -> None:
    """VeRL's default: FSDP computes in bf16, and keeps the weights in fp32."""
    result = run(tmp_path, *LATER, *BF16)
    first, differences = by_base(result), []
    distilled_by_base = 0
    for (step, _), group in by_group(result.actor).items():
        distilled = result.metrics[step]["coevo/templated_fraction"] == 1.0
        if distilled:
            check_no_correction(result.metrics[step])
        for row in group:
            assert row["log_probs"] == pytest.approx(row["old_log_probs"], abs=0.1)
            if step in first:
                on_question = log_probs(row["prompts"], row["responses"])
                pairs = zip(row["old_log_probs"], on_question, strict=True)
                differences += [abs(here - exact) for here, exact in pairs]
                distilled_by_base += distilled
    assert distilled_by_base > 0
    assert 1e-5 < sum(differences) / len(differences) < 0.05
