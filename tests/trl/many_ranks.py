"""Run P2O's distillation in several processes under torchrun, and write what each rank saw.

Arguments: the folder, and how the processes share the model: "ddp", "zero2" or "zero3". The dataset is a
stream, of which half is looked at.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", OMP_NUM_THREADS="1")
os.environ["DS_ACCELERATOR"] = "cpu"

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from helpers.trl_runs import know_all
from helpers.trl_world import TASKS, FixedTemplates, right_hint, rows, score
from prompt_coevo.adapters.trl import CoevoCallback, streams
from worlds.pairs.world import base_policy_path

KIND = sys.argv[2]
if KIND.startswith("zero"):
    os.environ.pop("ACCELERATE_USE_CPU", None)
    # With DeepSpeed but no accelerator, it takes every process for the only one.
    PartialState._prepare_backend = lambda *_: ("gloo", DistributedType.MULTI_CPU)

# Half of every group has a template.
HINTS = FixedTemplates({f"q{n}": [right_hint(task), ""] for n, task in enumerate(TASKS)})
STEPS = 6


def sharing() -> dict[str, Any]:
    """Return the trainer's arguments that say how the model is shared."""
    if KIND == "ddp":
        return {"use_cpu": True, "ddp_backend": "gloo"}
    config = {
        "zero_optimization": {"stage": int(KIND[-1])},
        "zero_allow_untested_optimizer": True,
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
    }
    return {"deepspeed": config, "ddp_backend": "gloo"}


def whole(model: Any) -> Any:
    """Return a context in which this process sees all parameters, which ZeRO-3 partitions."""
    if KIND != "zero3":
        return nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(list(model.parameters()))


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    streams.LOOKED_AT = len(TASKS) // 2
    count = int(os.environ["WORLD_SIZE"])
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
        reward_funcs=score,
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=8 // count,  # two groups of four, which span ranks
            num_generations=4,
            max_completion_length=12,
            learning_rate=1e-4,
            max_steps=STEPS,
            bf16=False,
            beta=0.01,
            report_to="none",
            logging_steps=1,
            disable_tqdm=True,
            save_strategy="no",
            **sharing(),
        ),
        train_dataset=Dataset.from_list(rows()).to_iterable_dataset(),
        processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
    )
    losses: list[dict[str, Any]] = []
    compute_loss, single_turn = trainer._compute_loss, trainer._generate_single_turn
    sampled: list[list[int]] = []

    def spy_loss(model: Any, inputs: Any) -> Any:
        losses.append({k: inputs[k].clone() for k in ("prompt_ids", "prompt_mask")})
        return compute_loss(model, inputs)

    def spy_turn(prompt_ids: Any, *arguments: Any, **options: Any) -> Any:
        if trainer.model.training:
            sampled.extend([list(ids) for ids in prompt_ids])
        return single_turn(prompt_ids, *arguments, **options)

    trainer._compute_loss, trainer._generate_single_turn = spy_loss, spy_turn
    settings = {
        "question_id_column": "id",
        "distill_forward": True,
        # Above every reward, so every step ends with a search, whose rollouts all ranks share.
        "algorithms": "p2o",
        "p2o": {
            "overspend": "never",
            "tau": 2.0,
            "dev_size": 2,
            "minibatch_size": 2,
            "search_budget": 12,
            "search_every": 2,
        },
        "reflection": {"function": know_all},
    }
    callback = CoevoCallback(trainer, settings, plugins={"hints": HINTS})
    trainer.add_callback(callback)
    trainer.train()
    decode = trainer.processing_class.decode
    with whole(trainer.model):
        weights = float(sum(one.double().sum() for one in trainer.model.parameters()))
    report = {
        "shared_by": type(trainer.model_wrapped).__name__,
        "processes": trainer.accelerator.num_processes,
        "searches": callback.engine.metrics()["coevo/searches"] if callback.engine else None,
        "sampled": [decode(ids) for ids in sampled],
        "trained": [
            decode(ids[mask.bool()])
            for loss in losses
            for ids, mask in zip(loss["prompt_ids"], loss["prompt_mask"], strict=True)
        ],
        "known": callback.policy.question_ids(),
        "weights": weights,
    }
    (folder / f"rank{trainer.accelerator.process_index}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
