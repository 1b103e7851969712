"""The questions, the policy, the rewards and the teacher of a smoke: the demo's, which need no network.

VeRL and OpenRLHF execute this file by its path to take their reward from it.
"""

from __future__ import annotations

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
    """Most are about words that the policy does not know, and a teacher can explain.

    A few are easy, so that there is something to learn from without any template, too.
    """
    drawn = training_tasks(World(), 0, _DRAWN)
    easy = [task for task in drawn if task.kind == "easy"][:_EASY]
    return (*[task for task in drawn if task.kind == "hard"][: QUESTIONS - _EASY], *easy)


def policy_path() -> Path:
    """The folder of the policy: 210 000 parameters, tokenizer and chat template."""
    return base_path(World())


@cache
def _teacher() -> Any:
    return teacher(error=0.0)


def answer(prompt: str) -> str:
    """What the reflection model replies: the setting `reflection.function`."""
    reply: str = _teacher()(prompt)
    return reply


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> float:
    """VeRL's reward: 1 for the right answer in the strict format."""
    return reward(solution_str, ground_truth)


def reward_func(
    queries: list[str], prompts: list[str], labels: list[str], **_: Any
) -> dict[str, Any]:
    """OpenRLHF's: the same. A query is the prompt and the response, with its end token."""
    import torch

    answers = [query.rpartition("<assistant>")[2].replace("<end>", "") for query in queries]
    scores = torch.tensor([reward(one, label) for one, label in zip(answers, labels, strict=True)])
    return {"rewards": scores, "scores": scores, "extra_logs": {}}
