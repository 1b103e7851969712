"""The questions, the policy and the teacher of a smoke: those of the demo, which need no network."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from prompt_coevo.demo.arms import teacher
from prompt_coevo.demo.splits import training_tasks
from prompt_coevo.demo.world import Task, World, base_path
from prompt_coevo.smoke.parts import QUESTIONS

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


def chat(task: Task) -> list[dict[str, str]]:
    """A question as a row of the dataset."""
    return [{"role": "user", "content": task.question}]


@cache
def _teacher() -> Any:
    return teacher("reasoning", 0, 0.0)


def answer(prompt: str) -> str:
    """What the reflection model replies: the setting `reflection.function`."""
    reply: str = _teacher()(prompt)
    return reply
