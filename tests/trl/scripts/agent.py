"""Train with a tool and a reward from -1 to .6 beside two others, as in TRL's grpo_agent.py."""

import re

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer


def look_up(sql_command: str) -> list[tuple]:
    """
    Ask the database.

    Args:
        sql_command: The SQL command to execute.

    Returns:
        A list of tuples with the results.
    """
    return [(sql_command, 1)]


def correctness_reward(completions, answer, **kwargs):
    rewards = []
    for completion, truth in zip(completions, answer, strict=True):
        match = re.search(r"\*(yes|no)\*", completion[-1]["content"].lower())
        if match is None:
            rewards.append(-0.5)
        else:
            rewards.append(0.6 if match.group(1) == truth.lower() else -1.0)
    return rewards


def structure_reward(completions, **kwargs):
    return [0.1 if any(turn.get("tool_calls") for turn in one) else -0.15 for one in completions]


def query_reward(completions, **kwargs):
    calls = [[turn for turn in one if turn.get("tool_calls")] for one in completions]
    return [0.4 if len(one) == 1 else -1.5 for one in calls]


def as_chat(example):
    content = f"Use the database, and answer *Yes* or *No*.\nQuestion: {example['question']}"
    return {"prompt": [{"role": "user", "content": content}]}


trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    train_dataset=load_dataset("qgallouedec/biogrid_qa", split="train").map(
        as_chat, remove_columns=["question"]
    ),
    tools=[look_up],
    reward_funcs=[correctness_reward, structure_reward, query_reward],
    args=GRPOConfig(output_dir="agent", chat_template_kwargs={"enable_thinking": False}),
)
trainer.train()
