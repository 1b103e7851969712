"""Build a bare GRPOTrainer on the demo's policy, for the benchmarks."""

from __future__ import annotations

import os
from typing import Any

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from prompt_coevo.demo.digits import MAX_COMPLETION, chat, spell
from worlds.pairs.splits import make_splits
from worlds.pairs.world import World, base_policy_path, reward


def build(folder: str, questions: int, rollouts: int, group: int, steps: int, **config: Any) -> Any:
    """Build it with `rollouts` per step in groups of `group`; other arguments go to the GRPOConfig."""
    torch.manual_seed(0)
    tasks = make_splits(World(), 0, questions, 8).train
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
        reward_funcs=lambda completions, answer, **_: [
            reward(c[0]["content"], a) for c, a in zip(completions, answer, strict=True)
        ],
        args=GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=rollouts,
            num_generations=group,
            max_completion_length=MAX_COMPLETION,
            max_steps=steps,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            **config,
        ),
        train_dataset=Dataset.from_list(
            [{"prompt": chat(task.question), "answer": spell(task.answer)} for task in tasks]
        ),
        processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer
