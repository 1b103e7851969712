"""Questions, policy, rewards and teacher of the smoke: the demo's, which need no network.

VeRL and OpenRLHF run this file by path to get their reward function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from prompt_coevo.demo.splits import training_tasks
from prompt_coevo.demo.teacher import teacher
from prompt_coevo.demo.world import Task, World, base_path, reward
from prompt_coevo.smoke.parts import QUESTIONS

FILE = __file__
_DRAWN = 64
_EASY = 4


def tasks() -> tuple[Task, ...]:
    """Draw questions, mostly about words that the policy does not know and a teacher can explain.

    A few are easy, so that there is something to learn without a template.
    """
    drawn = training_tasks(World(), 0, _DRAWN)
    easy = [task for task in drawn if task.kind == "easy"][:_EASY]
    return (*[task for task in drawn if task.kind == "hard"][: QUESTIONS - _EASY], *easy)


def policy_path() -> Path:
    """Return the policy's folder: 210 000 parameters, tokenizer and chat template."""
    return base_path(World())


@cache
def _teacher() -> Callable[[str], str]:
    return teacher(error=0.0)


def answer(prompt: str) -> str:
    """Reply as the reflection model: the setting `reflection.function`."""
    return _teacher()(prompt)


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: object = None, **_: object
) -> float:
    """Return VeRL's reward: 1 for the right answer in the strict format, else 0."""
    return reward(solution_str, ground_truth)


def reward_func(
    queries: list[str], prompts: list[str], labels: list[str], **_: object
) -> dict[str, Any]:
    """Return OpenRLHF's reward, the same as VeRL's. A query is prompt and response with its end token."""
    import torch

    answers = [query.rpartition("<assistant>")[2].replace("<end>", "") for query in queries]
    scores = torch.tensor([reward(one, label) for one, label in zip(answers, labels, strict=True)])
    return {"rewards": scores, "scores": scores, "extra_logs": {}}
