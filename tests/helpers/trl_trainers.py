"""Build TRL's real trainers with small settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, IterableDataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from helpers.trl_world import length, rows
from worlds.pairs.world import base_policy_path


def build_trainer(
    folder: Path,
    trainer: type = GRPOTrainer,
    dataset: Any = None,
    reward_funcs: Any = length,
    eval_dataset: Any = None,
    trainer_arguments: dict[str, Any] | None = None,
    policy: tuple[Any, Any] | None = None,
    like: type | None = None,
    policy_path: Path | None = None,
    **config: Any,
) -> Any:
    """Build a GRPOTrainer or RLOOTrainer on 8 hard questions; further arguments go to its config.

    It trains the demo's base policy, the one at `policy_path`, or `policy`, a model and its tokenizer.
    """
    torch.manual_seed(0)
    defaults: dict[str, Any] = {
        "output_dir": str(folder / "out"),
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 16,
        "learning_rate": 1e-3,
        "beta": 0.0,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "max_steps": 2,
    }
    arguments = (RLOOConfig if RLOOTrainer in (trainer, like) else GRPOConfig)(
        **(defaults | config)
    )
    model, processing_class = policy or (
        AutoModelForCausalLM.from_pretrained(
            policy_path or base_policy_path(), dtype=torch.float32
        ),
        AutoTokenizer.from_pretrained(policy_path or base_policy_path()),
    )
    built = trainer(
        model=model,
        reward_funcs=reward_funcs,
        args=arguments,
        train_dataset=dataset
        if isinstance(dataset, IterableDataset)
        else Dataset.from_list(rows() if dataset is None else dataset),
        eval_dataset=eval_dataset,
        processing_class=processing_class,
        **(trainer_arguments or {}),
    )
    built.remove_callback(PrinterCallback)
    return built
