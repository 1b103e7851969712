"""Train on text prompts, as in two examples on TRL's page "GRPO Trainer": references, extra columns."""

import re

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer


def as_text(row):
    return {
        "prompt": f"Problem: {row['question']} Solution:",
        "ground_truth": row["answer"].split("####")[1].strip(),
    }


def reward_func(completions, ground_truth, log_extra=None, log_metric=None, **kwargs):
    found = [re.search(r"\\boxed\{(.*?)\}", one) for one in completions]
    answers = [one.group(1) if one else None for one in found]
    rewards = [float(a == truth) for a, truth in zip(answers, ground_truth, strict=True)]
    if log_extra:
        log_extra("answer", [one or "[none]" for one in answers])
    if log_metric:
        log_metric("accuracy", sum(rewards) / len(rewards))
    return rewards


dataset = load_dataset("openai/gsm8k", split="train")
trainer = GRPOTrainer(
    model="Qwen/Qwen2.5-0.5B-Instruct",
    reward_funcs=reward_func,
    args=GRPOConfig(output_dir="text", log_completions=True),
    train_dataset=dataset.map(as_text, remove_columns=dataset.column_names),
)
trainer.train()
