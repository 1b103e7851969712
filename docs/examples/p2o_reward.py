# /// script
# dependencies = ["math-verify"]
# ///
"""The reward of P2O's experiment for VeRL and OpenRLHF: 1 if the answer in \\boxed{} is right, else 0.

math-verify decides what equals what, as in TRL's `accuracy_reward`. It ends a comparison that takes too
long by an alarm, which only a main thread can have, and both trainers ask for rewards in other threads. So
it runs in processes of its own. They get text and return a number: to unpickle 9^{9^{9^9}} is computing it.
"""

import importlib
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from threading import Lock

from math_verify import LatexExtractionConfig, parse, verify

BOXED = [LatexExtractionConfig(boxed_match_priority=0)]
LOCK = Lock()


def started():
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


POOL = started()


def solved(response, answer):
    """Without a box there is no reward: "follows the format", as the paper says."""
    if "\\boxed{" not in response:
        return 0.0
    for _ in range(2):
        pool = POOL
        try:
            return pool.submit(importable().graded, response, answer).result()
        except BrokenProcessPool:
            # The system ended a process for its memory, maybe because of another answer.
            replace(pool)
    return 0.0


def replace(broken):
    global POOL
    with LOCK:
        if POOL is broken:
            POOL = started()


def graded(response, answer):
    return float(verify(right(answer), parse(response, BOXED, extraction_mode="first_match")))


@lru_cache(maxsize=65536)
def right(answer):
    # In a box, too: a bare "5 \\sqrt{2}" would be read as 5.
    return parse(f"\\boxed{{{answer}}}", BOXED)


@lru_cache
def importable():
    """Return this file under a name that a process can import, which trainers do not give it."""
    file = Path(__file__).resolve()
    sys.path.append(str(file.parent))
    return importlib.import_module(file.stem)


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """VeRL: reward.custom_reward_function.path."""
    return solved(solution_str, str(ground_truth))


def reward_func(queries, prompts, labels, **kwargs):
    """OpenRLHF: --reward.remote_url. A query is the prompt, maybe with a template, and the response."""
    import torch

    rewards = []
    for query, prompt, label in zip(queries, prompts, labels, strict=True):
        response = re.sub(r"(<[^<>\s]+>\s*)+$", "", query.removeprefix(prompt))
        rewards.append(solved(response, str(label)))
    return {"rewards": torch.tensor(rewards), "scores": torch.tensor(rewards), "extra_logs": {}}
