"""The demo's rewards as a file for `--reward.remote_url`; `COEVO_TEST_REWARD` selects one.

OpenRLHF executes the file without adding it to `sys.modules`, and calls `reward_func` for one response
at a time.
"""

from __future__ import annotations

import os
import re
from typing import Any

import torch

from prompt_coevo.demo.unnamed.tasks import reward as unnamed_reward
from prompt_coevo.demo.world import reward as facts_reward
from worlds.pairs.world import reward


def demo(answer: str, label: str) -> float:
    """Return 1 for the right answer in the strict format."""
    return reward(answer, label)


def facts(answer: str, label: str) -> float:
    """Return the same in the world of many facts."""
    return facts_reward(answer, label)


def unnamed(answer: str, label: str) -> float:
    """Return the same in the language model's world."""
    return unnamed_reward(answer, label)


def distinct_words(answer: str, label: str) -> float:
    """Return a reward that differs between rollouts, so that every group has a gradient."""
    return len(set(answer.split())) / 20


def says_yes(answer: str, label: str) -> float:
    """Return 1 for an answer with the word "yes", for a policy scripted by a test."""
    return float("yes" in answer)


def fails_sometimes(answer: str, label: str) -> float:
    """Raises for every third length."""
    if len(answer.split()) % 3 == 0:
        raise RuntimeError("the grader is down")
    return 1.0


_SCORE = {
    function.__name__: function
    for function in (demo, facts, unnamed, distinct_words, says_yes, fails_sometimes)
}[os.environ.get("COEVO_TEST_REWARD", "demo")]
_RIGHT = _SCORE if _SCORE in (facts, unnamed) else reward
_LAYOUT = re.compile(r".*(?:<assistant>|<\|im_start\|>assistant\n)", re.DOTALL)
"""The text before an answer, in the layouts of the policies."""


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> dict[str, Any]:
    """Return rewards, and the correctness of the answers as metric `acc`."""
    answers = [re.sub(r"<end>|<\|im_end\|>", "", _LAYOUT.sub("", query)) for query in queries]
    scores = torch.tensor([_SCORE(a, label) for a, label in zip(answers, labels, strict=True)])
    right = torch.tensor([_RIGHT(a, label) for a, label in zip(answers, labels, strict=True)])
    return {"rewards": scores, "scores": scores, "extra_logs": {"acc": right}}
