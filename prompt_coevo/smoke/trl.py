"""TRL: GRPOTrainer with the callback. `python -m prompt_coevo.smoke.trl FOLDER` runs a folder's job."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prompt_coevo.demo.digits import chat
from prompt_coevo.demo.trainer import build_trainer
from prompt_coevo.demo.world import reward
from prompt_coevo.lines import JSON
from prompt_coevo.smoke import ghost, world
from prompt_coevo.smoke.parts import (
    EPOCHS,
    GHOST,
    GROUP,
    INSPO,
    LEARNING_RATE,
    ROLLOUTS_PER_STEP,
    SAVE_STEPS,
    STREAM,
    WAVES,
    Adapter,
    Command,
    Evidence,
    Variant,
    ours,
)

if TYPE_CHECKING:
    import torch
    from peft import LoraConfig
    from transformers import PreTrainedModel
    from trl import GRPOTrainer

_JOB: Final = "job.json"
_RESULT: Final = "result.json"
_OUR_METRICS: Final = "coevo/"
LORA: Final = "lora"
"""A trainer value of the variant that trains the policy by LoRA."""

_VLLM: Final[Mapping[str, JSON]] = {
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": 0.3,
    "vllm_max_model_length": 256,
}
_TP2: Final[Mapping[str, JSON]] = {**_VLLM, "vllm_tensor_parallel_size": 2}
_CHECKPOINTING: Final[Mapping[str, JSON]] = {"gradient_checkpointing": True}
_SAVING: Final[Mapping[str, JSON]] = {"save_strategy": "steps", "save_steps": SAVE_STEPS}
_TORCHRUN: Final = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node")


def _prepare(variant: Variant, folder: Path, cpu: bool) -> Command:
    job = {
        "coevo": variant.coevo,
        "trainer": variant.host or {},
        "cpu": cpu,
        "ranks": variant.gpus,
        "ghost": variant.course == "ghost",
    }
    (folder / _JOB).write_text(json.dumps(job), "utf-8")
    # With several visible GPUs, transformers would spread the batch over them.
    seen = {"CUDA_VISIBLE_DEVICES": ""} if cpu else {}
    ranks = [] if variant.gpus == 1 else [*_TORCHRUN, str(variant.gpus)]
    return [sys.executable, *ranks, "-m", "prompt_coevo.smoke.trl", str(folder)], seen


def _read(variant: Variant, folder: Path) -> Evidence:
    return Evidence(**json.loads((folder / _RESULT).read_text("utf-8")))


ADAPTER: Final = Adapter(
    "trl",
    "TRL",
    ("torch", "transformers", "accelerate", "datasets", "trl"),
    {"vllm": "prompt-coevo[trl,vllm]", "peft": "peft"},
    (
        Variant("p2o", "P2O, bf16", WAVES, on_cpu=True),
        Variant("stream", "stream", STREAM, on_cpu=True),
        Variant("inspo", "INSPO", INSPO, on_cpu=True),
        Variant("lora", "P2O, LoRA", WAVES, {LORA: True}, ("peft",), on_cpu=True),
        Variant("checkpointing", "P2O, gradient checkpointing", WAVES, _CHECKPOINTING, on_cpu=True),
        Variant("vllm", "P2O, vLLM colocated with CUDA graphs", WAVES, _VLLM, ("vllm",)),
        Variant("resume", "P2O, killed and resumed", WAVES, _SAVING, on_cpu=True, course="resume"),
        Variant("ghost", "made-up completions, fp32", GHOST, on_cpu=True, course="ghost"),
        Variant("speed", "stream, time of a step", STREAM, on_cpu=True, course="speed"),
        Variant("ranks", "P2O, two ranks", WAVES, on_cpu=True, gpus=2),
        Variant("tp2", "P2O, two ranks, vLLM on both", WAVES, _TP2, ("vllm",), gpus=2),
        Variant("ranks8", "P2O, eight ranks", WAVES, gpus=8),
    ),
    _prepare,
    _read,
    "out/checkpoint-*/trainer_state.json",
    "model/model.safetensors",
)


class LossRecorder:
    """Record what reaches a trainer's loss, below the callback, which is attached later."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        self.prompts = self.strangers = 0
        self.times: list[float] = []
        self.difference: float | None = None
        self._questions = {
            tuple(
                trainer.processing_class.apply_chat_template(
                    chat(task.question), add_generation_prompt=True, tokenize=True, return_dict=True
                )["input_ids"]
            )
            for task in world.tasks()
        }
        self._compute_loss: Callable[..., torch.Tensor] = trainer._compute_loss
        trainer._compute_loss = self._looked_at

    def _looked_at(
        self, model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        self.times.append(time.monotonic())
        pairs = zip(inputs["prompt_ids"].tolist(), inputs["prompt_mask"].tolist(), strict=True)
        for ids, mask in pairs:
            prompt = tuple(token for token, real in zip(ids, mask, strict=True) if real)
            self.prompts += 1
            self.strangers += prompt not in self._questions
        sampler, old = inputs.get("sampling_per_token_logps"), inputs.get("old_per_token_logps")
        if sampler is not None and old is not None:
            # In rows under a template the adapter replaced one with the other, so their difference is 0.
            apart = ((sampler - old).abs() * inputs["completion_mask"]).max().item()
            known = 0.0 if self.difference is None else self.difference
            self.difference = apart if math.isnan(apart) else max(known, apart)
        return self._compute_loss(model, inputs)


def main(folder: Path) -> None:
    """Train, and write what is to be judged."""
    # Late: this needs torch, which the command line does not.
    from accelerate.utils import gather_object
    from transformers.trainer_utils import get_last_checkpoint

    from prompt_coevo.adapters.trl import CoevoCallback

    job = json.loads((folder / _JOB).read_text("utf-8"))
    trainer = _trainer(folder, job)
    recorder = LossRecorder(trainer)
    if job["coevo"]:
        trainer.add_callback(CoevoCallback(trainer, job["coevo"]))
    checkpoint = get_last_checkpoint(folder / "out") if (folder / "out").exists() else None
    trainer.train(resume_from_checkpoint=checkpoint)
    if job["ghost"]:
        trainer.save_model(str(folder / "model"))
    recorder.prompts, recorder.strangers = (
        sum(gather_object([one])) for one in (recorder.prompts, recorder.strangers)
    )
    if trainer.accelerator.is_main_process:
        before = int(checkpoint.rpartition("-")[2]) if checkpoint else 0
        found = _evidence(trainer.state.log_history, before, recorder, "inspo" not in job["coevo"])
        (folder / _RESULT).write_text(json.dumps(asdict(found)), "utf-8")


def _trainer(folder: Path, job: Mapping[str, Any]) -> GRPOTrainer:
    host = dict(job["trainer"])
    trainer = build_trainer(
        world.policy_path(),
        world.tasks(),
        ghost.grade if job["ghost"] else reward,
        out=folder / "out",
        seed=0,
        epochs=EPOCHS,
        learning_rate=LEARNING_RATE,
        adapter=_lora() if host.pop(LORA, False) else None,
        changes={
            "per_device_train_batch_size": ROLLOUTS_PER_STEP // job["ranks"],
            "num_generations": GROUP,
            "use_cpu": job["cpu"],
            "bf16": not job["cpu"] and not job["ghost"],
            **host,
        },
    )
    if job["ghost"]:
        _make_up(trainer)
    return trainer


def _make_up(trainer: GRPOTrainer) -> None:
    """Let the trainer take made-up completions instead of sampling."""
    tokenizer = trainer.processing_class

    def made_up(prompt_ids: Sequence[Sequence[int]], *_: object, **__: object) -> tuple[Any, None]:
        asked = map(tokenizer.decode, prompt_ids)
        return [ghost.completion(one, tokenizer.eos_token_id) for one in asked], None

    trainer._generate_single_turn = made_up


def _evidence(
    logged: Sequence[Mapping[str, float]], before: int, seen: LossRecorder, bare: bool
) -> Evidence:
    steps = [entry for entry in logged if "loss" in entry and entry["step"] > before]
    return Evidence(
        losses=[entry["loss"] for entry in steps],
        gradients=[entry["grad_norm"] for entry in steps],
        metrics=ours(steps[-1], _OUR_METRICS),
        templated=max(entry.get(f"{_OUR_METRICS}templated_fraction", 0.0) for entry in steps),
        prompts=seen.prompts if bare else None,
        strangers=seen.strangers if bare else 0,
        difference=seen.difference,
        measure="log-probs, at most",
        seconds=[after - one for one, after in pairwise(seen.times)],
        before=before,
    )


def _lora() -> LoraConfig:
    from peft import LoraConfig

    return LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
