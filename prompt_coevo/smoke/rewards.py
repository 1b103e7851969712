"""The smoke's reward, for `reward.custom_reward_function.path` and `--reward.remote_url`.

Both hosts execute this file by its path.
"""

from __future__ import annotations

from typing import Any

from prompt_coevo.demo.world import reward


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> float:
    """VeRL's: 1 for the right answer in the strict format."""
    return reward(solution_str, ground_truth)


def reward_func(
    queries: list[str], prompts: list[str], labels: list[str], **_: Any
) -> dict[str, Any]:
    """OpenRLHF's: the same. A query is the prompt and the response, with its end token."""
    import torch

    answers = [query.rpartition("<assistant>")[2].replace("<end>", "") for query in queries]
    scores = torch.tensor([reward(one, label) for one, label in zip(answers, labels, strict=True)])
    return {"rewards": scores, "scores": scores, "extra_logs": {}}
