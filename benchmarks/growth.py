"""Measure how the engine's own work grows with the dataset, in which every question is hard.

    python benchmarks/growth.py [--questions 1000 10000 100000 1000000] [--json FILE]

Times are CPU seconds. Questions have 61 words, drawn by Zipf's law from 30 000, and a number of up to
three digits for an answer. With `stream` a run sees every question once and no template, in steps of
1 024 questions with 8 rollouts each. Then the reflection model, a function, begins to answer, and one in
fifty rollouts under a template succeeds: 20 more steps give the medians, in which the neighbours of every
question are looked up for the first time. State, journal and ledger are those after them, and another
engine loads the state. With `p2o` a search is set up, as at the end of an epoch, twice: the second one
finds every question read already. Candidates have 200 words. Every row runs in a separate process, because
memory is a process's peak, less what it had with the dataset alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from prompt_coevo import Assignment, Coevolution, Question, Rollout, RolloutRequest, Settings
from prompt_coevo.algorithms.p2o.search import Search
from prompt_coevo.candidates.leaks import LeakGuards
from prompt_coevo.candidates.searches import SearchRequest

WORDS: Final = 61
VOCABULARY: Final = 30_000
BATCH: Final = 1_024
GROUP: Final = 8
MEASURED: Final = 20
CANDIDATES: Final = 40
SAVES: Final = 5


class Hard:
    """A policy that solves questions only by luck. All its questions exist from the beginning."""

    def __init__(self, questions: int) -> None:
        self.rng = np.random.default_rng(0)
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        sizes = self.rng.integers(2, 12, VOCABULARY)
        self.words = ["".join(self.rng.choice(letters, size)) for size in sizes]
        self._questions: dict[str, Question] = {}
        while len(self._questions) < questions:
            for row in np.minimum(self.rng.zipf(1.3, (1_000, WORDS)), VOCABULARY).tolist():
                number = len(self._questions)
                text = " ".join([self.words[rank - 1] for rank in row])
                self._questions[f"q{number}"] = Question(f"q{number}", text, str(number % 1_000))

    def question_ids(self) -> list[str]:
        return list(self._questions)

    def question(self, question_id: str) -> Question:
        return self._questions[question_id]

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        return []

    def rolled_out(self, plan: Sequence[Assignment], engine: Coevolution) -> list[Rollout]:
        lucky = self.rng.random(len(plan)) < 0.02
        version = engine.policy_version
        return [
            Rollout(one, "no " * 500, float(luck and one.templated), policy_version=version)
            for one, luck in zip(plan, lucky.tolist(), strict=True)
        ]


class Teacher:
    """Answer at once, possibly with nothing."""

    def __init__(self) -> None:
        self.calls, self.answers = 0, False

    def __call__(self, prompt: str) -> str:
        self.calls += 1
        return f"<template>idea {self.calls}</template>" if self.answers else ""

    def engine(self, folder: Path | None) -> Coevolution:
        settings = Settings(reflection={"function": self})
        return Coevolution.from_settings(settings, output_dir=folder)


def stream(questions: int) -> dict[str, Any]:
    policy, teacher = Hard(questions), Teacher()
    with tempfile.TemporaryDirectory() as folder:
        memory = most_memory()
        engine = teacher.engine(Path(folder))
        took = {"begin": timed(lambda: engine.begin(policy))[0]}
        train(engine, policy, -(-questions // BATCH))
        teacher.answers = True
        took |= train(engine, policy, MEASURED)
        saves = [timed(engine.state_dict) for _ in range(SAVES)]
        took["state_dict"] = statistics.median(seconds for seconds, _ in saves)
        grown = most_memory() - memory
        engine.end(policy)
        state = saves[-1][1]
        again = teacher.engine(None)
        took["resume"] = timed(lambda: (again.load_state_dict(state), again.begin(policy)))[0]
        files = {path.stem: path.stat().st_size / 1e6 for path in Path(folder).rglob("*.jsonl")}
    numbers = {
        name: int(engine.metrics()[f"coevo/{name}"])
        for name in ("hard_samples", "templates_joined")
    }
    return {
        "questions": questions,
        **numbers,
        "seconds": took,
        "megabytes": {"memory": grown, "state": len(json.dumps(state)) / 1e6, **files},
    }


def train(engine: Coevolution, policy: Hard, steps: int) -> dict[str, float]:
    """Train on each question once before any twice; return the median times of a step's parts."""
    ids = policy.question_ids()
    parts: dict[str, list[float]] = {"plan": [], "observe": [], "step_end": []}
    order = np.resize(policy.rng.permutation(len(ids)), steps * BATCH)
    for chosen in np.split(order, steps):
        asked = [ids[number] for number in dict.fromkeys(chosen.tolist())]
        seconds, plan = timed(lambda asked=asked: engine.plan(asked, GROUP))
        parts["plan"].append(seconds)
        rollouts = policy.rolled_out(plan, engine)
        parts["observe"].append(timed(lambda rollouts=rollouts: engine.observe(rollouts))[0])
        parts["step_end"].append(timed(lambda: engine.step_end(policy))[0])
    return {name: statistics.median(values) for name, values in parts.items()}


def p2o(questions: int) -> dict[str, Any]:
    policy = Hard(questions)
    settings = Settings(algorithms="p2o", reflection={"function": str})
    engine, guards = Coevolution.from_settings(settings), LeakGuards(settings.gates)
    request = SearchRequest(0, tuple(policy.question_ids()), policy, guards=guards)
    memory = most_memory()
    first, _ = timed(lambda: Search(request, engine.context))
    grown = most_memory() - memory
    second, _ = timed(lambda: Search(request, engine.context))
    guard = guards.guard(map(policy.question, policy.question_ids()))
    # Evenly drawn words, so that no template leaks and all are checked.
    texts = [" ".join(policy.rng.choice(policy.words, 200)) for _ in range(CANDIDATES)]
    guard.find(texts[0])
    taken = [timed(lambda text=text: guard.find(text)) for text in texts]
    return {
        "questions": questions,
        "set_up_seconds": first,
        "set_up_again_seconds": second,
        "set_up_megabytes": grown,
        "milliseconds_per_candidate": 1_000 * statistics.median(seconds for seconds, _ in taken),
        "candidates_refused": sum(reason is not None for _, reason in taken),
    }


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of all threads, and the result."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def most_memory() -> float:
    """Return this process's peak memory, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sizes = [1_000, 10_000, 100_000, 1_000_000]
    parser.add_argument("--questions", type=int, nargs="+", default=sizes)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {"stream": [], "p2o": []}
    for questions in options.questions:
        for measure in (stream, p2o):
            with multiprocessing.get_context("spawn").Pool(1) as process:
                row = process.apply(measure, (questions,))
            results[measure.__name__].append(row)
            print(measure.__name__, json.dumps(row), flush=True)
    if options.json:
        text = json.dumps({"machine": machine(), **results}, indent=1)
        options.json.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
