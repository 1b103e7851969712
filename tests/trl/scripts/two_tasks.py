"""Train with a reward for some rows only, as in "Multi-task reward functions" on TRL's page."""

from datasets import Dataset
from trl import GRPOTrainer

dataset = Dataset.from_list(
    [
        {"prompt": "What is 2+5?", "task": "math"},
        {"prompt": "Write a function that returns the sum of two numbers.", "task": "code"},
        {"prompt": "What is 3+4?", "task": "math"},
        {"prompt": "Write a function that returns the product of two numbers.", "task": "code"},
    ]
)


def math_reward_func(prompts, completions, task, **kwargs):
    said = ["7" in completion for completion in completions]
    return [(1.0 if s else -1.0) if t == "math" else None for s, t in zip(said, task, strict=True)]


def coding_reward_func(prompts, completions, task, **kwargs):
    said = ["def " in completion for completion in completions]
    return [(1.0 if s else -1.0) if t == "code" else None for s, t in zip(said, task, strict=True)]


trainer = GRPOTrainer(
    model="Qwen/Qwen2.5-0.5B-Instruct",
    reward_funcs=[math_reward_func, coding_reward_func],
    train_dataset=dataset,
)
trainer.train()
