"""The trainer that all arms have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
import trl
from checks import loaded
from tier import Base

from prompt_coevo.demo.digits import chat, spell
from prompt_coevo.demo.world import Task


def build_trainer(base: Base, tasks: Sequence[Task], folder: Path, seed: int, rate: float) -> Any:
    """The bare GRPOTrainer, the same for every arm."""
    tier, on_gpu = base.tier, torch.cuda.is_available()
    model, tokenizer = loaded(base)

    def graded(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
        return [
            base.world.reward(one[0]["content"], truth)
            for one, truth in zip(completions, answer, strict=True)
        ]

    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=graded,
        args=trl.GRPOConfig(
            output_dir=str(folder),
            seed=seed,
            max_steps=tier.most_steps,
            per_device_train_batch_size=tier.rollouts_per_step,
            num_generations=tier.group_size,
            max_completion_length=tier.max_completion,
            temperature=1.0,
            beta=0.0,
            learning_rate=rate,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=5,
            adam_beta2=0.95,
            shuffle_dataset=False,
            gradient_checkpointing=False,
            use_cpu=not on_gpu,
            bf16=on_gpu,
            save_strategy="no",
            save_total_limit=1,
            report_to="none",
            disable_tqdm=True,
            logging_steps=1,
        ),
        train_dataset=datasets.Dataset.from_list(
            [{"prompt": chat(task), "answer": spell(task.answer)} for task in tasks]
        ),
        processing_class=tokenizer,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer
