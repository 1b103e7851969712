"""Train on rows of one prompt with the game in `reset`, as in TRL's examples/scripts/openenv/wordle.py."""

import random

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

PROMPT = "You are an expert Wordle solver. Guess the word with the tool `guess`."


class Wordle:
    def reset(self, **kwargs) -> str:
        self.word = random.choice(["crane", "slate", "adieu", "audio"])
        self.reward = 0.0
        return f"A word of {len(self.word)} letters that begins with {self.word[0]}."

    def guess(self, guess: str) -> str:
        """
        Guess the word.

        Args:
            guess: Five letters.

        Returns:
            Whether it is right.
        """
        self.reward = float(guess == self.word)
        return "right" if self.reward else "wrong"


def reward_func(environments, **kwargs):
    return [one.reward for one in environments]


trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=reward_func,
    train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": PROMPT}]] * 1000}),
    args=GRPOConfig(
        output_dir="wordle", max_steps=12, chat_template_kwargs={"enable_thinking": False}
    ),
    environment_factory=Wordle,
)
trainer.train()
