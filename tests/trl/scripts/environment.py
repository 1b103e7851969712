"""Train on environments without a dataset, where `reset` returns the question, as on TRL's page "GRPO
Trainer"."""

import random

from trl import GRPOConfig, GRPOTrainer


class Increment:
    def reset(self, **kwargs) -> str:
        self.counter = 0
        self.target = random.randint(1, 6)
        return f"Increment the counter by {self.target}."

    def get_reward(self) -> float:
        return float(self.counter == self.target)

    def increment(self, step: int) -> int:
        """
        Increment the counter.

        Args:
            step: Value to add to the counter.

        Returns:
            The counter.
        """
        self.counter += step
        return self.counter


trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    args=GRPOConfig(max_steps=12, chat_template_kwargs={"enable_thinking": False}),
    environment_factory=Increment,
)
trainer.train()
