"""Train like the GSM8K tutorial: five rewards, with the right answer's in units of 2."""

import re

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

SYSTEM_PROMPT = "Respond with <reasoning>...</reasoning><answer>...</answer>."


def said(completion):
    return completion[0]["content"].split("<answer>")[-1].split("</answer>")[0].strip()


def prepare(row):
    chat = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": row["question"]},
    ]
    return {"prompt": chat, "answer": row["answer"].split("####")[1].strip()}


def correctness_reward_func(prompts, completions, answer, **kwargs):
    return [2.0 if said(c) == a else 0.0 for c, a in zip(completions, answer, strict=True)]


def int_reward_func(completions, **kwargs):
    return [0.5 if said(one).isdigit() else 0.0 for one in completions]


def strict_format_reward_func(completions, **kwargs):
    pattern = r"^<reasoning>\n.*?\n</reasoning>\n<answer>\n.*?\n</answer>\n$"
    return [0.5 if re.match(pattern, one[0]["content"]) else 0.0 for one in completions]


def soft_format_reward_func(completions, **kwargs):
    return [0.5 if "<answer>" in one[0]["content"] else 0.0 for one in completions]


def xmlcount_reward_func(completions, **kwargs):
    return [0.125 * one[0]["content"].count("answer>") for one in completions]


trainer = GRPOTrainer(
    model="Qwen/Qwen2.5-0.5B-Instruct",
    reward_funcs=[
        xmlcount_reward_func,
        soft_format_reward_func,
        strict_format_reward_func,
        int_reward_func,
        correctness_reward_func,
    ],
    args=GRPOConfig(output_dir="gsm8k", learning_rate=5e-6, num_generations=8),
    train_dataset=load_dataset("openai/gsm8k", split="train").map(prepare),
)
trainer.train()
