"""What the leak guard costs: CPU seconds and memory of a search's set-up, milliseconds a candidate.

    python benchmarks/leak_guard.py [--questions 1000 100000 1000000] [--json FILE]

Questions have 61 words, drawn by Zipf's law from 30 000, and a number of up to three digits for an answer;
all of them are hard. Set up is the paper's search, as at the end of an epoch, twice: the second one finds
every question read already. Candidates have 200 words. Every size has a process of its own, because
memory is the most that a process ever had.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prompt_coevo import Coevolution, Question, Rollout, RolloutRequest, Settings
from prompt_coevo.algorithms.p2o.search import Search, SearchRequest
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.candidates.leaks import LeakGuards

WORDS, VOCABULARY, CANDIDATES = 61, 30_000, 40


class Hard:
    """A policy whose questions are all there from the beginning: their memory is not what is measured."""

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


def measure(questions: int) -> dict[str, Any]:
    policy = Hard(questions)
    settings = Settings(p2o={"search_backend": "waves"}, reflection={"function": str})
    engine, guards = Coevolution.from_settings(settings), LeakGuards(settings.gates)
    section = settings.section(P2OSettings)
    request = SearchRequest(0, tuple(policy.question_ids()), policy, section, guards=guards)
    memory = most_memory()
    first, _ = timed(lambda: Search(request, engine.desk))
    grown = most_memory() - memory
    second, _ = timed(lambda: Search(request, engine.desk))
    guard = guards.guard(map(policy.question, policy.question_ids()))
    # Evenly drawn words, so that nothing leaks and everything is looked at.
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
    """CPU seconds, and the result."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def most_memory() -> float:
    """The most memory that this process has had, in megabytes."""
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
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--questions", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    for questions in options.questions:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            results.append(process.apply(measure, (questions,)))
        print(json.dumps(results[-1]))
    if options.json:
        text = json.dumps({"machine": machine(), "results": results}, indent=1)
        options.json.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
