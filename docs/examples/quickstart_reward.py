"""The reward of the quick starts with VeRL and OpenRLHF: 1 if the response ends with the answer, else 0."""

import re


def solved(response, answer):
    said, wanted = response.rstrip(" .\n").split(), str(answer).split()
    return float(said[-len(wanted) :] == wanted)


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """VeRL: reward.custom_reward_function.path."""
    return solved(solution_str, ground_truth)


def reward_func(queries, prompts, labels, **kwargs):
    """OpenRLHF: --reward.remote_url. A query is the prompt and the response, with its end token."""
    import torch

    rewards = []
    for query, prompt, label in zip(queries, prompts, labels, strict=True):
        response = re.sub(r"(<[^<>\s]+>\s*)+$", "", query.removeprefix(prompt))
        rewards.append(solved(response, label))
    return {"rewards": torch.tensor(rewards), "scores": torch.tensor(rewards), "extra_logs": {}}
