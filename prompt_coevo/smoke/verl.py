"""VeRL: `python -m verl.trainer.main_ppo` with `+coevo=...` and vLLM."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from prompt_coevo.demo.digits import MAX_COMPLETION, chat, spell
from prompt_coevo.smoke import world
from prompt_coevo.smoke.parts import (
    EPOCHS,
    GHOST,
    GROUP,
    HALF,
    LEARNING_RATE,
    PROMPT_TOKENS,
    QUESTIONS_PER_STEP,
    ROLLOUTS_PER_STEP,
    SAVE_STEPS,
    STEPS,
    STREAM,
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
_ATTENTION: Final = f"++{_MODEL}.override_config.attn_implementation"
_TP: Final = f"{_ROLLOUT}.tensor_model_parallel_size"
_DATA: Final = "train.parquet"
_METRICS: Final = "metrics.jsonl"
_DUMPS: Final = "trained"
_OUR_METRICS: Final = "coevo/"
_DIFFERENCE: Final = "training/rollout_probs_diff_max"

_CHECKPOINTING: Final = f"{_MODEL}.enable_gradient_checkpointing=True"
_LORA: Final = (
    f"{_MODEL}.lora_rank=8",
    f"{_MODEL}.lora_alpha=16",
    f"{_MODEL}.target_modules=all-linear",
    f"{_ROLLOUT}.load_format=safetensors",
)
_PADDING: Final = (
    f"{_MODEL}.use_remove_padding=True",
    f"{_ACTOR}.use_dynamic_bsz=True",
    f"{_ACTOR}.ppo_max_token_len_per_gpu=1024",
)
_FLASH: Final = (*_PADDING, f"{_ATTENTION}=flash_attention_2")
_GRAPHS: Final = (f"{_ROLLOUT}.enforce_eager=False",)
_SEPARATE: Final = (
    "trainer.v1.trainer_mode=separate_async",
    "trainer.v1.separate_async.parameter_sync_step=2",
    f"{_ACTOR}.ppo_mini_batch_size={QUESTIONS_PER_STEP // 2}",
    f"{_ACTOR}.ppo_micro_batch_size_per_gpu={ROLLOUTS_PER_STEP // 2}",
    f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu={ROLLOUTS_PER_STEP // 2}",
    f"{_ROLLOUT}.nnodes=1",
    f"{_ROLLOUT}.n_gpus_per_node=1",
    f"{_ROLLOUT}.checkpoint_engine.backend=nccl",
)
_SAVING: Final = (f"trainer.save_freq={SAVE_STEPS}", "trainer.resume_mode=auto")
_FP32: Final = tuple(
    f"++{_ACTOR}.fsdp_config.mixed_precision.{name}=fp32"
    for name in ("param_dtype", "reduce_dtype", "buffer_dtype")
)


def _ranks(count: int) -> tuple[str, ...]:
    return (
        f"trainer.n_gpus_per_node={count}",
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu={ROLLOUTS_PER_STEP // count}",
        f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu={ROLLOUTS_PER_STEP // count}",
    )


_VARIANTS: Final = (
    *ray_variants(_CHECKPOINTING),
    Variant("lora", "P2O, LoRA", WAVES, _LORA),
    Variant("padding", "P2O, padding removal, dynamic batch", WAVES, _PADDING),
    Variant("flash", "the same with flash attention", WAVES, _FLASH, ("flash_attn",)),
    Variant("graphs", "P2O, CUDA graphs", WAVES, _GRAPHS),
    Variant("async", "P2O, colocate_async", WAVES, ("trainer.v1.trainer_mode=colocate_async",)),
    Variant("resume", "P2O, killed and resumed", WAVES, _SAVING, course="resume"),
    Variant("ghost", "made-up completions, fp32", GHOST, _FP32, course="ghost"),
    Variant("speed", "stream, time of a step", STREAM, course="speed"),
    Variant("ranks", "P2O, two ranks", WAVES, _ranks(2), gpus=2),
    Variant("tp2", "P2O, vLLM on two GPUs", WAVES, (*_ranks(2), f"{_TP}=2"), gpus=2),
    Variant("separate", "P2O, separate_async", WAVES, _SEPARATE, gpus=2),
    Variant("ranks8", "P2O, eight ranks", WAVES, _ranks(8), gpus=8),
)


def _prepare(variant: Variant, folder: Path, cpu: bool) -> Command:
    _write_questions(folder / _DATA)
    given = [*_arguments(folder), *variant.host]
    if variant.coevo:
        method, file = method_and_file(variant, folder)
        given += [f"+coevo={method}", f"coevo.config_file={file}"]
    if HALF in variant.coevo.get("algorithms", ()):
        given.append(f"coevo.algorithms=[{HALF}]")
    if variant.course == "ghost":
        given += _ghost(folder)
    return (
        [sys.executable, "-m", "verl.trainer.main_ppo", *given],
        {"VERL_FILE_LOGGER_PATH": str(folder / _METRICS), "HYDRA_FULL_ERROR": "1"},
    )


def _ghost(folder: Path) -> list[str]:
    """Let an agent loop make up the completions, and VeRL save the last weights."""
    loops = folder / "loops.yaml"
    loop = {"name": "ghost", "_target_": "prompt_coevo.smoke.ghost_verl.GhostLoop"}
    loops.write_text(json.dumps([loop]), "utf-8")
    return [
        f"{_ROLLOUT}.agent.agent_loop_config_path={loops}",
        f"{_ROLLOUT}.agent.default_agent_loop=ghost",
        f"{_ROLLOUT}.calculate_log_probs=False",
        f"trainer.save_freq={STEPS}",
        f"{_ACTOR}.checkpoint.save_contents=[hf_model]",
    ]


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
        f"{_ATTENTION}=sdpa",
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
        f"{_TP}=1",
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
            "prompt": chat(task.question),
            "ability": "smoke",
            "reward_model": {"style": "rule", "ground_truth": spell(task.answer)},
            "extra_info": {"index": number},
        }
        for number, task in enumerate(world.tasks())
    ]
    datasets.Dataset.from_list(rows).to_parquet(path)


def _read(variant: Variant, folder: Path) -> Evidence:
    steps = [one for one in _records(folder / _METRICS) if "actor/pg_loss" in one["data"]]
    first, trained = steps[0]["step"], [one["data"] for one in steps]
    prompts = None if "inspo" in variant.coevo else _trained_prompts(folder / _DUMPS)
    # The chat template writes roles as special tokens, which the dumps omit.
    known = {task.question for task in world.tasks()}
    # VeRL has none for a step that ran under templates as a whole.
    apart = [one[_DIFFERENCE] for one in trained if _DIFFERENCE in one]
    return Evidence(
        losses=[one["actor/pg_loss"] for one in trained],
        gradients=[one["actor/grad_norm"] for one in trained],
        metrics=ours(trained[-1], _OUR_METRICS),
        templated=max(one.get(f"{_OUR_METRICS}templated_fraction", 0.0) for one in trained),
        prompts=None if prompts is None else len(prompts),
        strangers=sum(one not in known for one in prompts or ()),
        difference=None if variant.course == "ghost" else max(apart),  # a ghost has no sampler
        measure="probabilities, at most",
        seconds=[one["timing_s/step"] for one in trained[1:]],
        before=first - 1,
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
    _VARIANTS,
    _prepare,
    _read,
    "checkpoints/latest_checkpointed_iteration.txt",
    f"checkpoints/global_step_{STEPS}/actor/huggingface/model.safetensors",
)
