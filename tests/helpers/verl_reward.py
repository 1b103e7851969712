"""The demo's rewards as a file for `reward.custom_reward_function`.

VeRL executes the file without adding it to `sys.modules`.
"""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path
from typing import Any

import aiohttp

from prompt_coevo.demo.unnamed.tasks import reward as unnamed_reward
from prompt_coevo.demo.world import reward as facts_reward
from prompt_coevo.testing.adapter import Job, reward_of
from worlds.pairs.world import reward


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    **_: Any,
) -> dict[str, float]:
    """Return 1 for the right answer in the strict format."""
    score = reward(solution_str, ground_truth)
    return {"score": score, "acc": score}


demo = compute_score
"""An alias, as in OpenRLHF's helper."""


def facts(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    **_: Any,
) -> dict[str, float]:
    """Return the same in the world of many facts."""
    score = facts_reward(solution_str, ground_truth)
    return {"score": score, "acc": score}


def unnamed(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    **_: Any,
) -> dict[str, float]:
    """Return the same in the language model's world."""
    score = unnamed_reward(solution_str, ground_truth)
    return {"score": score, "acc": score}


def distinct_words(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    **_: Any,
) -> dict[str, float]:
    """Return a reward that differs between rollouts, so that every group has a gradient."""
    score = len(set(solution_str.split())) / 20
    return {"score": score, "acc": reward(solution_str, ground_truth)}


def dapo(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    **_: Any,
) -> dict[str, Any]:
    """Return what VeRL's DAPO reward does: a score from -1 to 1 less a penalty, correctness, a text."""
    right = reward(solution_str, ground_truth) == 1
    words = len(set(solution_str.split()))
    return {"score": (1 if right else -1) - words / 100, "acc": right, "pred": solution_str[:20]}


def says_yes(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    **_: Any,
) -> dict[str, float]:
    """Return 1 for an answer with the word "yes", for a policy scripted by a test."""
    score = float("yes" in solution_str)
    return {"score": score, "acc": score}


async def by_reward_model(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any],
    reward_router_address: str,
    reward_model_tokenizer: Any,
    **_: Any,
) -> dict[str, float]:
    """Return the score of question and response by a reward model that VeRL serves."""
    chat = [
        {"role": "user", "content": extra_info["question"]},
        {"role": "assistant", "content": solution_str},
    ]
    asked = {"input": reward_model_tokenizer.apply_chat_template(chat, tokenize=False)}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{reward_router_address}/v1/embeddings", json=asked) as response,
    ):
        score = (await response.json())["data"][-1]["embedding"][-1]
    return {"score": score, "acc": score}


def by_job(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any], **_: Any
) -> dict[str, float]:
    """Return the reward by the kit's job, for `helpers.verl_under_test`; NaN where it has none."""
    random.random()  # as a reward function with a random choice would
    job = Job(**json.loads(Path(os.environ["COEVO_TEST_JOB"]).read_text()))
    said = reward_of(job, extra_info["id"], solution_str)
    score = math.nan if said is None else said
    return {"score": score, "acc": score}
