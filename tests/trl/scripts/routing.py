"""Train on several environments, which the dataset only selects, as on TRL's page "GRPO Trainer"."""

import random

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer


class Coding:
    def reset(self, **kwargs) -> str:
        return f"Compute the {random.randint(1, 20)}th Fibonacci number."

    def run_code(self, code: str) -> str:
        """
        Run Python.

        Args:
            code: The source.

        Returns:
            What it printed.
        """
        return "0"


class Game:
    def reset(self, **kwargs) -> str:
        return "Reach the goal tile."

    def move(self, action: str) -> str:
        """
        Move.

        Args:
            action: One of up, down, left, right.

        Returns:
            Where you are.
        """
        return "still on the way"


def reward_func(completions, **kwargs):
    return [float(len(one) > 2) for one in completions]


trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    train_dataset=Dataset.from_dict({"environment": ["coding", "game"] * 500}),
    reward_funcs=reward_func,
    args=GRPOConfig(max_steps=12, chat_template_kwargs={"enable_thinking": False}),
    environment_factory={"coding": Coding, "game": Game},
)
trainer.train()
