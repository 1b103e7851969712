"""OpenRLHF: `python -m prompt_coevo.adapters.openrlhf`, with vLLM."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from tensorboard.backend.event_processing.event_accumulator import ScalarEvent

_DATA: Final = "train.jsonl"
_BOARD: Final = "board"
_OUR_METRICS: Final = "train/coevo/"
_GHOST: Final = Path(__file__).with_name("ghost_openrlhf.py")
_SWITCHES: Final = (
    "data.apply_chat_template",
    "vllm.enforce_eager",
    "vllm.enable_sleep",
    "train.colocate_all",
)
_NO: Final = "no "
"""Begins what a variant has instead of an argument, to leave a switch out."""

_PACKING: Final = (
    "--ds.packing_samples",
    "--ds.attn_implementation=flash_attention_2",
    "--train.dynamic_batch_enable",
    "--train.max_tokens_per_gpu=1024",
)
_SAVING: Final = (f"--ckpt.save_steps={SAVE_STEPS}", "--ckpt.load_enable")
_ASYNC: Final = ("--train.async_enable", f"{_NO}train.colocate_all", f"{_NO}vllm.enable_sleep")


def _ranks(count: int) -> tuple[str, ...]:
    return (
        f"--actor.num_gpus_per_node={count}",
        f"--vllm.num_engines={count}",
        f"--rollout.micro_batch_size={ROLLOUTS_PER_STEP // count}",
        f"--train.micro_batch_size={ROLLOUTS_PER_STEP // count}",
    )


_TP2: Final = (*_ranks(2), "--vllm.num_engines=1", "--vllm.tensor_parallel_size=2")
_VARIANTS: Final = (
    *ray_variants("--actor.gradient_checkpointing_enable"),
    Variant(
        "flash", "P2O, flash attention", WAVES, ("--ds.attn_implementation=flash_attention_2",)
    ),
    Variant("packing", "P2O, flash attention, packing, dynamic batch", WAVES, _PACKING),
    Variant("graphs", "P2O, CUDA graphs", WAVES, (f"{_NO}vllm.enforce_eager",)),
    Variant("zero3", "P2O, ZeRO-3", WAVES, ("--ds.zero_stage=3",)),
    Variant("resume", "P2O, killed and resumed", WAVES, _SAVING, course="resume"),
    Variant("ghost", "made-up completions, bf16", GHOST, course="ghost"),
    Variant("speed", "stream, time of a step", STREAM, course="speed"),
    Variant("ranks", "P2O, two ranks, two engines", WAVES, _ranks(2), gpus=2),
    Variant("tp2", "P2O, two ranks, vLLM on both", WAVES, _TP2, gpus=2),
    Variant("async", "P2O, asynchronous", WAVES, _ASYNC, gpus=2),
    Variant("ranks8", "P2O, eight ranks, eight engines", WAVES, _ranks(8), gpus=8),
)


def _prepare(variant: Variant, folder: Path, cpu: bool) -> Command:
    rows = [{"input": chat(task.question), "label": spell(task.answer)} for task in world.tasks()]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / _DATA).write_text(lines, "utf-8")
    given = [*_arguments(folder, variant), *(one for one in variant.host if one[0] == "-")]
    module = "openrlhf.cli.train_ppo_ray"
    if variant.coevo:
        module = "prompt_coevo.adapters.openrlhf"
        method, file = method_and_file(variant, folder)
        given += ["--coevo.method", method, "--coevo.config_file", str(file)]
    if HALF in variant.coevo.get("algorithms", ()):
        given += ["--coevo.algorithms", HALF]
    # A fresh datasets cache: another run's file may have had the same name.
    caches = {"HF_DATASETS_CACHE": str(folder / "cache")}
    return [sys.executable, "-m", module, *given], caches


def _arguments(folder: Path, variant: Variant) -> list[str]:
    board = folder / f"{_BOARD}{len(_boards(folder))}"  # one for each start
    board.mkdir()
    ghost = variant.course == "ghost"
    rewards = {"train.agent_func_path": _GHOST} if ghost else {"reward.remote_url": world.FILE}
    values = {
        **rewards,
        "actor.model_name_or_path": world.policy_path(),
        "actor.num_gpus_per_node": 1,
        "actor.adam.lr": LEARNING_RATE,
        "actor.lr_scheduler": "constant",
        "actor.lr_warmup_ratio": 0,
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
        **({} if ghost else {"algo.advantage.is_correction_level": "token"}),
        "algo.kl.init_coef": 0,
        "ds.zero_stage": 2,
        "ds.attn_implementation": "sdpa",
        "ckpt.path": folder / "checkpoints",
        "ckpt.output_dir": folder / "model",
        "logger.tensorboard_dir": board,
    }
    given = [part for name, value in values.items() for part in (f"--{name}", str(value))]
    return [*given, *(f"--{name}" for name in _SWITCHES if f"{_NO}{name}" not in variant.host)]


def _boards(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_BOARD}?"))


def _read(variant: Variant, folder: Path) -> Evidence:
    events = dict(_series(_boards(folder)[-1]))
    series = {name: [one.value for one in all_] for name, all_ in events.items()}
    found = evidence(series, sampled=variant.course != "ghost")
    steps = events["train/policy_loss"]
    seconds = [after.wall_time - one.wall_time for one, after in pairwise(steps)]
    return replace(found, before=steps[0].step - 1, seconds=seconds)


def evidence(series: Mapping[str, Sequence[float]], *, sampled: bool = True) -> Evidence:
    """Build the evidence from OpenRLHF's metrics, one number per step. Raises KeyError if one is
    missing. If the completions were not `sampled`, there are no log-probs of a sampler."""
    return Evidence(
        losses=series["train/policy_loss"],
        gradients=series["train/actor_grad_norm"],
        metrics=ours({name: values[-1] for name, values in series.items()}, _OUR_METRICS),
        # The fraction of rows whose prompt was replaced by the question's. The adapter itself checks that
        # they were, and ends the run if not. OpenRLHF writes no trained prompts anywhere.
        templated=max(series.get("train/coevo_distilled", [0.0])),
        difference=max(map(abs, series["train/vllm_kl"])) if sampled else None,
        measure="log-probs, the mean of a step at most",
    )


def _series(folder: Path) -> Iterator[tuple[str, list[ScalarEvent]]]:
    """Return all numbers that OpenRLHF wrote for TensorBoard: by name, one per step."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for path in sorted({file.parent for file in folder.rglob("events.out.tfevents.*")}):
        found = EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
        for name in found.Tags()["scalars"]:
            yield name, found.Scalars(name)


ADAPTER: Final = Adapter(
    "openrlhf",
    "OpenRLHF",
    ("torch", "openrlhf", "deepspeed", "ray", "vllm", "flash_attn", "tensorboard"),
    {"vllm": "openrlhf[vllm]", "flash_attn": "flash-attn"},
    _VARIANTS,
    _prepare,
    _read,
    "checkpoints/**/latest",
    "model/model.safetensors",
)
