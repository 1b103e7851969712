"""Check that `benchmarks/verl_effect.py` trains the language model with TRL's values."""

from __future__ import annotations

from typing import Any

from effect import Job
from hydra import compose, initialize_config_module
from verl_effect import PROMPT, overrides

from prompt_coevo.demo.unnamed.tasks import MOST_TOKENS
from prompt_coevo.demo.unnamed.values import LEARNING_RATE, TEMPERATURE


def config(job: Job) -> Any:
    helpers = [
        "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        f"data.max_prompt_length={PROMPT}",
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=[*helpers, *overrides(job)])


def test_verl_gets_the_tiers_values() -> None:
    job = Job("unnamed", "grpo", 3, 4, 88, vllm=True)
    read = config(job)
    actor, rollout = read.actor_rollout_ref.actor, read.actor_rollout_ref.rollout
    assert (read.data.train_batch_size, rollout.n, actor.ppo_mini_batch_size) == (4, 8, 4)
    assert (read.trainer.total_epochs, read.trainer.save_freq, read.data.seed) == (4, 22, 3)
    assert read.data.max_response_length == rollout.response_length == MOST_TOKENS
    assert rollout.max_model_len == PROMPT + MOST_TOKENS
    assert (rollout.temperature, rollout.top_k, rollout.top_p) == (TEMPERATURE, -1, 1)
    optim = actor.optim
    assert (optim.lr, list(optim.betas), optim.weight_decay) == (LEARNING_RATE, [0.9, 0.99], 0)
    assert (optim.lr_warmup_steps, optim.lr_scheduler_type) == (3, "constant")
    assert (actor.grad_clip, actor.clip_ratio, actor.loss_agg_mode) == (1.0, 0.2, "token-mean")
    assert actor.ppo_epochs == 1
    assert actor.fsdp_config.model_dtype == "fp32"
    assert actor.fsdp_config.mixed_precision.param_dtype == "bf16"
    assert rollout.dtype == "bfloat16"


def test_a_toy_keeps_float32() -> None:
    read = config(Job("facts", "grpo", 0, 8, 512))
    assert read.actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype == "fp32"
    assert read.actor_rollout_ref.rollout.max_model_len is None
    assert (read.trainer.save_freq, read.data.max_response_length) == (128, 18)
