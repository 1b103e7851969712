"""What a stream costs the trainer's process when everything is hard: CPU seconds a step, memory, state.

    python benchmarks/stream_scale.py [--questions 100000] [--words 100] [--json FILE]

Questions are made of words drawn by Zipf's law from 30 000; every rollout fails, but one in fifty under a
template. A step has 1 024 questions with 8 rollouts each. The reflection model is a function that answers
at once.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prompt_coevo import Coevolution, Settings
from prompt_coevo.types import Assignment, Question, Rollout, RolloutRequest

VOCABULARY, BATCH, GROUP = 30_000, 1_024, 8
MEASURED = 40
"""Steps, after a whole epoch."""


class Hard:
    """Questions that nothing solves but luck."""

    def __init__(self, questions: int, words: int) -> None:
        rng = np.random.default_rng(0)
        self._words = np.empty((questions, words), dtype=np.int32)
        for row in self._words:  # not at once, which would need more memory than what is measured
            row[:] = np.minimum(rng.zipf(1.3, size=words), VOCABULARY)
        self._rng = rng

    def question_ids(self) -> list[str]:
        return [f"q{number}" for number in range(len(self._words))]

    def question(self, question_id: str) -> Question:
        words = self._words[int(question_id[1:])]
        return Question(question_id, " ".join(f"w{word}" for word in words), "7")

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        return []

    def train(self, plan: Sequence[Assignment], engine: Coevolution) -> list[Rollout]:
        lucky = self._rng.random(len(plan)) < 0.02
        version = engine.policy_version
        return [
            Rollout(one, "no " * 500, float(luck and one.templated), policy_version=version)
            for one, luck in zip(plan, lucky.tolist(), strict=True)
        ]


def measure(questions: int, words: int) -> dict[str, Any]:
    calls = 0

    def reply(prompt: str) -> str:
        nonlocal calls
        calls += 1
        return f"<template>idea {calls}</template>"

    policy = Hard(questions, words)
    engine = Coevolution.from_settings(
        Settings(p2o={"search_backend": "stream", "riders": 0.02}, reflection={"function": reply})
    )
    memory = resident()
    took = {"begin": timed(lambda: engine.begin(policy))[0]}
    grown = resident() - memory
    ids, rng = policy.question_ids(), np.random.default_rng(1)
    parts: dict[str, list[float]] = {"plan": [], "observe": [], "step_end": []}
    first_epoch = -(-questions // BATCH)
    order = np.concatenate([rng.permutation(questions) for _ in range(2)])
    for step in range(first_epoch + MEASURED):
        chosen = [ids[n] for n in order[step * BATCH : (step + 1) * BATCH]]
        seconds, plan = timed(lambda chosen=chosen: engine.plan(chosen, GROUP))
        parts["plan"].append(seconds)
        seconds, riders = timed(lambda plan=plan: engine.wanted(len(plan)))
        parts["plan"][-1] += seconds
        rollouts = policy.train([*plan, *(one.assignment for one in riders)], engine)
        parts["observe"].append(timed(lambda rollouts=rollouts: engine.observe(rollouts))[0])
        parts["step_end"].append(timed(lambda: engine.step_end(policy))[0])
    took |= {name: statistics.median(values[-MEASURED:]) for name, values in parts.items()}
    saved, state = timed(engine.state_dict)
    return {
        "questions": questions,
        "hard": engine.metrics()["coevo/hard_samples"],
        "templates": engine.metrics()["coevo/templates_in_use"],
        "seconds": {**took, "state_dict": saved},
        "begin_megabytes": grown,
        "state_megabytes": len(json.dumps(state)) / 1e6,
    }


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def resident() -> float:
    """The most memory that this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = measure(options.questions, options.words)
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
