"""Train with an asynchronous reward beside a plain one, as on TRL's page "GRPO Trainer"."""

import asyncio

from datasets import load_dataset
from trl import GRPOTrainer


async def correct(completions, solution, **kwargs):
    await asyncio.sleep(0.01)  # a service is called
    wanted = [one.strip("$") for one in solution]
    return [
        float(f"\\boxed{{{w}}}" in c[0]["content"])
        for c, w in zip(completions, wanted, strict=True)
    ]


async def polite(completions, **kwargs):
    await asyncio.sleep(0.01)
    return [0.1 if "please" in one[0]["content"] else 0.0 for one in completions]


def brief_format(completions, **kwargs):
    return [0.1 if len(one[0]["content"]) < 40 else 0.0 for one in completions]


trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=[correct, polite, brief_format],
    train_dataset=load_dataset("trl-lib/DeepMath-103K", split="train"),
)
trainer.train()
