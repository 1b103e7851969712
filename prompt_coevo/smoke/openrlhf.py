"""OpenRLHF: `python -m prompt_coevo.adapters.openrlhf`, on one GPU with vLLM."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from prompt_coevo.demo.digits import MAX_COMPLETION, chat, spell
from prompt_coevo.smoke import world
from prompt_coevo.smoke.parts import (
    EPOCHS,
    GROUP,
    LEARNING_RATE,
    PROMPT_TOKENS,
    QUESTIONS_PER_STEP,
    ROLLOUTS_PER_STEP,
    Adapter,
    Command,
    Evidence,
    Variant,
    method_and_file,
    ours,
    ray_variants,
)

_DATA: Final = "train.jsonl"
_BOARD: Final = "board"
_OUR_METRICS: Final = "train/coevo/"


def _prepare(variant: Variant, folder: Path, cpu: bool) -> Command:
    rows = [{"input": chat(task), "label": spell(task.answer)} for task in world.tasks()]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / _DATA).write_text(lines, "utf-8")
    method, file = method_and_file(variant, folder)
    flags = ["--coevo.method", method, "--coevo.config_file", str(file)]
    start = [sys.executable, "-m", "prompt_coevo.adapters.openrlhf"]
    # A fresh datasets cache: another run's file may have had the same name.
    caches = {"HF_DATASETS_CACHE": str(folder / "cache")}
    return [*start, *_arguments(folder), *variant.host, *flags], caches


def _arguments(folder: Path) -> list[str]:
    values = {
        "actor.model_name_or_path": world.policy_path(),
        "actor.num_gpus_per_node": 1,
        "actor.adam.lr": LEARNING_RATE,
        "actor.lr_scheduler": "constant",
        "actor.lr_warmup_ratio": 0,
        "reward.remote_url": world.FILE,
        "vllm.num_engines": 1,
        "vllm.gpu_memory_utilization": 0.3,
        "data.prompt_dataset": folder / _DATA,
        "data.input_key": "input",
        "data.label_key": "label",
        "data.max_len": PROMPT_TOKENS + MAX_COMPLETION,
        "rollout.max_new_tokens": MAX_COMPLETION,
        "rollout.batch_size": QUESTIONS_PER_STEP,
        "rollout.n_samples_per_prompt": GROUP,
        "rollout.micro_batch_size": ROLLOUTS_PER_STEP,
        "train.batch_size": ROLLOUTS_PER_STEP,
        "train.micro_batch_size": ROLLOUTS_PER_STEP,
        "train.num_episodes": EPOCHS,
        "train.seed": 0,
        "algo.advantage.estimator": "group_norm",
        # This makes the sampler's log-probs available, to compare with the trainer's.
        "algo.advantage.is_correction_level": "token",
        "algo.kl.init_coef": 0,
        "ds.zero_stage": 2,
        "ds.attn_implementation": "sdpa",
        "ckpt.path": folder / "checkpoints",
        "ckpt.output_dir": folder / "model",
        "logger.tensorboard_dir": folder / _BOARD,
    }
    given = [part for name, value in values.items() for part in (f"--{name}", str(value))]
    switches = ("data.apply_chat_template", "vllm.enforce_eager", "vllm.enable_sleep")
    return [*given, *(f"--{name}" for name in switches), "--train.colocate_all"]


def _read(variant: Variant, folder: Path) -> Evidence:
    return evidence(dict(_series(folder / _BOARD)))


def evidence(series: Mapping[str, Sequence[float]]) -> Evidence:
    """Build the evidence from OpenRLHF's metrics, one number per step. Raises KeyError if one is
    missing."""
    return Evidence(
        losses=series["train/policy_loss"],
        gradients=series["train/actor_grad_norm"],
        metrics=ours({name: values[-1] for name, values in series.items()}, _OUR_METRICS),
        # The fraction of rows whose prompt was replaced by the question's. The adapter itself checks that
        # they were, and ends the run if not. OpenRLHF writes no trained prompts anywhere.
        templated=max(series.get("train/coevo_distilled", [0.0])),
        difference=max(map(abs, series["train/vllm_kl"])),
        measure="log-probs, the mean of a step at most",
    )


def _series(folder: Path) -> Iterator[tuple[str, list[float]]]:
    """Return all numbers that OpenRLHF wrote for TensorBoard: by name, one per step."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for path in sorted({file.parent for file in folder.rglob("events.out.tfevents.*")}):
        found = EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
        for name in found.Tags()["scalars"]:
            yield name, [event.value for event in found.Scalars(name)]


ADAPTER: Final = Adapter(
    "openrlhf",
    "OpenRLHF",
    ("torch", "openrlhf", "deepspeed", "ray", "vllm", "flash_attn", "tensorboard"),
    {"vllm": "openrlhf[vllm]", "flash_attn": "flash-attn"},
    ray_variants("--actor.gradient_checkpointing_enable"),
    _prepare,
    _read,
)
