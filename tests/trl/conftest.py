"""The real trainers on the demo's base policy: 157 000 parameters, trained, so that hints matter."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", OMP_NUM_THREADS="1")

import pytest
import torch
from datasets import Dataset, IterableDataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from helpers.trl_world import length, rows
from prompt_coevo.demo.model import base_policy_path

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(base_policy_path())


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Any]:
    """A GRPOTrainer or RLOOTrainer on 8 hard questions; arguments go to its config."""

    def make(
        trainer: type = GRPOTrainer,
        dataset: Any = None,
        reward_funcs: Any = length,
        eval_dataset: Any = None,
        trainer_arguments: dict[str, Any] | None = None,
        policy: tuple[Any, Any] | None = None,
        like: type | None = None,
        **config: Any,
    ) -> Any:
        torch.manual_seed(0)
        defaults: dict[str, Any] = {
            "output_dir": str(tmp_path / "out"),
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
            AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
            AutoTokenizer.from_pretrained(base_policy_path()),
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

    return make
