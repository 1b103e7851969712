"""Compare P2O's search in waves with the package gepa, at the same budget of rollouts.

    python benchmarks/search_backends.py [--json FILE]

The policy is a rule: a question belongs to one of FAMILIES families and is solved iff the template
holds its family's word. The reflection model is a rule, too: it adds the word of one failed question
that it is shown, and its templates hold WORDS words at most, so that several templates are needed.
Counted are what a real run waits for: calls of `policy.rollout` and rounds of reflection calls, one
after the other. `solved` is the share of the dev questions that the found templates solve together.
Seconds are the searches' own, since rule and policy take none.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prompt_coevo import Coevolution, Settings, hookimpl, hookspecs
from prompt_coevo.candidates.searches import SearchRequest, SearchResult
from prompt_coevo.types import Question, Rollout, RolloutRequest

# The method is no part of the package.
sys.path.append(str(Path(__file__).resolve().parent.parent / "docs/plugins/gepa"))

FAMILIES, WORDS, QUESTIONS, SEEDS = 24, 6, 240, 5
COMMON = {"overspend": "never", "dev_size": 72, "minibatch_size": 3}


def by_gepa(proposals: int) -> dict[str, Any]:
    return {
        "algorithms": ("p2o", "prompt_coevo_gepa:METHOD"),
        "plugins": {"gepa": {"proposals": proposals}},
    }


BACKENDS: dict[str, dict[str, Any]] = {
    "waves": {},
    "waves, front_fill": {"p2o": {"front_fill": True}},
    "gepa": by_gepa(1),
    "gepa, 4 at once": by_gepa(4),
    "gepa, 16 at once": by_gepa(16),
}


class RulePolicy:
    """Solves "q3" iff the template holds "w3"; counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def question(self, question_id: str) -> Question:
        return Question(question_id, f"what is {question_id}?")

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        self.calls += 1
        return [self._answer(request) for request in requests]

    def _answer(self, request: RolloutRequest) -> Rollout:
        template = request.assignment.template
        solved = (
            template is not None and word(request.assignment.question_id) in template.text.split()
        )
        return Rollout(request.assignment, "", float(solved))


class Rounds:
    """Count the rounds of reflection calls: those of one round run at once."""

    def __init__(self) -> None:
        self.count = 0

    @hookimpl(tryfirst=True)
    def coevo_propose(self) -> None:
        self.count += 1


def word(question_id: str) -> str:
    return f"w{int(question_id[1:]) % FAMILIES}"


def reflect(prompt: str) -> str:
    """Add the word of the first failed question; drop the oldest word when there are too many."""
    current = re.search(r"<current_template>\n(.*?)\n</current_template>", prompt, re.DOTALL)
    failed = re.search(r"what is (q\d+)\?", prompt)
    assert current is not None
    assert failed is not None
    words = [*re.findall(r"\bw\d+", current[1]), word(failed[1])]
    return f"<template>{' '.join(words[-WORDS:])}</template>"


def search(backend: dict[str, Any], budget: int, seed: int) -> dict[str, float]:
    policy, rounds = RulePolicy(), Rounds()
    p2o = {**COMMON, **backend.get("p2o", {}), "search_budget": budget}
    settings = Settings(
        **{
            "algorithms": "p2o",
            **backend,
            "seed": seed,
            "p2o": p2o,
            "reflection": {"function": reflect},
        }
    )
    engine = Coevolution.from_settings(settings, plugins={"rounds": rounds})
    ids = tuple(f"q{number}" for number in range(QUESTIONS))
    started = time.perf_counter()
    result: SearchResult = engine.context.first_result(
        hookspecs.coevo_search, request=SearchRequest(0, ids, policy)
    )
    seconds = time.perf_counter() - started
    assert not result.failed, result.stopped
    return {
        "rollout_calls": policy.calls,
        "reflection_rounds": rounds.count,
        "rollouts": result.rollouts,
        "spent": result.spent,
        "proposals": result.proposals,
        "accepted": result.accepted,
        "solved": float(result.pool.scores.max(axis=0).mean()),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table = []
    for budget in (1000, 3000, 11_000):
        for name, backend in BACKENDS.items():
            runs = [search(backend, budget, seed) for seed in range(SEEDS)]
            means = {key: round(statistics.mean(run[key] for run in runs), 4) for key in runs[0]}
            table.append({"budget": budget, "backend": name, **means})
            print(f"{budget:6} {name:20}", *(f"{k} {v:.4g}" for k, v in means.items()), sep="  ")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
