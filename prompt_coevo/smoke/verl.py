"""VeRL: `python -m verl.trainer.main_ppo` with `+coevo=...`, on one GPU with vLLM."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from prompt_coevo.demo.digits import MAX_COMPLETION, chat, spell
from prompt_coevo.smoke import world
from prompt_coevo.smoke.parts import (
    EPOCHS,
    GROUP,
    LEARNING_RATE,
    PROMPT_TOKENS,
    QUESTIONS_PER_STEP,
    ROLLOUTS_PER_STEP,
    WAVES,
    Adapter,
    Command,
    Evidence,
    Variant,
    method_and_file,
    ours,
    ray_variants,
)

_ACTOR: Final = "actor_rollout_ref.actor"
_ROLLOUT: Final = "actor_rollout_ref.rollout"
_MODEL: Final = "actor_rollout_ref.model"
_DATA: Final = "train.parquet"
_METRICS: Final = "metrics.jsonl"
_DUMPS: Final = "trained"
_OUR_METRICS: Final = "coevo/"

_CHECKPOINTING: Final = f"{_MODEL}.enable_gradient_checkpointing=True"
_LORA: Final = (
    f"{_MODEL}.lora_rank=8",
    f"{_MODEL}.lora_alpha=16",
    f"{_MODEL}.target_modules=all-linear",
    f"{_ROLLOUT}.load_format=safetensors",
)


def _prepare(variant: Variant, folder: Path, cpu: bool) -> Command:
    _write_questions(folder / _DATA)
    method, file = method_and_file(variant, folder)
    flags = [f"+coevo={method}", f"coevo.config_file={file}"]
    return (
        [sys.executable, "-m", "verl.trainer.main_ppo", *_arguments(folder), *variant.host, *flags],
        {"VERL_FILE_LOGGER_PATH": str(folder / _METRICS), "HYDRA_FULL_ERROR": "1"},
    )


def _arguments(folder: Path) -> list[str]:
    return [
        f"hydra.run.dir={folder / 'composed'}",
        "algorithm.adv_estimator=grpo",
        "algorithm.use_kl_in_reward=False",
        f"data.train_files={folder / _DATA}",
        f"data.val_files={folder / _DATA}",
        f"data.train_batch_size={QUESTIONS_PER_STEP}",
        f"data.max_prompt_length={PROMPT_TOKENS}",
        f"data.max_response_length={MAX_COMPLETION}",
        "data.dataloader_num_workers=0",
        "data.seed=0",
        f"{_MODEL}.path={world.policy_path()}",
        f"{_MODEL}.use_remove_padding=False",
        f"{_MODEL}.enable_gradient_checkpointing=False",
        f"+{_MODEL}.override_config.attn_implementation=sdpa",
        f"{_ACTOR}.optim.lr={LEARNING_RATE}",
        f"{_ACTOR}.ppo_mini_batch_size={QUESTIONS_PER_STEP}",
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu={ROLLOUTS_PER_STEP}",
        f"{_ACTOR}.use_kl_loss=False",
        f"{_ROLLOUT}.name=vllm",
        f"{_ROLLOUT}.n={GROUP}",
        f"{_ROLLOUT}.calculate_log_probs=True",
        f"{_ROLLOUT}.enforce_eager=True",
        f"{_ROLLOUT}.gpu_memory_utilization=0.3",
        f"{_ROLLOUT}.max_model_len=256",
        f"{_ROLLOUT}.tensor_model_parallel_size=1",
        f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu={ROLLOUTS_PER_STEP}",
        f"{_ROLLOUT}.agent.num_workers=1",
        f"reward.custom_reward_function.path={world.FILE}",
        "reward.num_workers=1",
        "trainer.nnodes=1",
        "trainer.n_gpus_per_node=1",
        "trainer.logger=[console,file]",
        f"trainer.total_epochs={EPOCHS}",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.resume_mode=disable",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"trainer.rollout_data_dir={folder / _DUMPS}",
    ]


def _write_questions(path: Path) -> None:
    import datasets

    rows = [
        {
            "data_source": "smoke",
            "prompt": chat(task),
            "ability": "smoke",
            "reward_model": {"style": "rule", "ground_truth": spell(task.answer)},
            "extra_info": {"index": number},
        }
        for number, task in enumerate(world.tasks())
    ]
    datasets.Dataset.from_list(rows).to_parquet(path)


def _read(variant: Variant, folder: Path) -> Evidence:
    steps = [one["data"] for one in _records(folder / _METRICS)]
    trained = [one for one in steps if "actor/pg_loss" in one]
    prompts = None if "inspo" in variant.coevo else _trained_prompts(folder / _DUMPS)
    # The chat template writes roles as special tokens, which the dumps omit.
    known = {task.question for task in world.tasks()}
    apart = [one["training/rollout_probs_diff_max"] for one in trained]
    return Evidence(
        losses=[one["actor/pg_loss"] for one in trained],
        gradients=[one["actor/grad_norm"] for one in trained],
        metrics=ours(trained[-1], _OUR_METRICS),
        templated=max(one.get(f"{_OUR_METRICS}templated_fraction", 0.0) for one in trained),
        prompts=None if prompts is None else len(prompts),
        strangers=sum(one not in known for one in prompts or ()),
        difference=max(apart),
        measure="probabilities, at most",
    )


def _trained_prompts(folder: Path) -> list[str]:
    """Return the trained prompts from VeRL's own dumps, which omit special tokens."""
    return [
        " ".join(one["input"].split())
        for file in sorted(folder.glob("*.jsonl"))
        for one in _records(file)
    ]


def _records(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


ADAPTER: Final = Adapter(
    "verl",
    "VeRL",
    ("torch", "verl", "transfer_queue", "ray", "datasets", "vllm"),
    {"vllm": "verl[vllm]", "ray": "verl[vllm]"},
    (*ray_variants(_CHECKPOINTING), Variant("lora", "P2O, LoRA", WAVES, _LORA)),
    _prepare,
    _read,
)
