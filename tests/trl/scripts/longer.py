"""Reward longer completions, as on TRL's page "GRPO Trainer": no completion can be right."""

from datasets import load_dataset
from trl import GRPOTrainer


def reward_func(completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]


trainer = GRPOTrainer(
    model="Qwen/Qwen2.5-0.5B-Instruct",
    reward_funcs=reward_func,
    train_dataset=load_dataset("trl-lib/ultrafeedback-prompt", split="train"),
)
trainer.train()
