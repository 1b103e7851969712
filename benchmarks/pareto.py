"""Front selection and cover against the paper's own loops in plain Python.

    python benchmarks/pareto.py [--json FILE]

Scores are random and binary; each template has its own success rate, below 60 %.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from prompt_coevo.algorithms.p2o.pareto import greedy_cover, non_dominated, select_pareto_front

WIDTH = 16


def plain_front(scores: list[list[float]]) -> list[int]:
    """Algorithm 4, lines 1 to 16."""
    front = []
    for i, mine in enumerate(scores):
        if not any(j != i and dominates(theirs, mine) for j, theirs in enumerate(scores)):
            front.append(i)
    return front


def dominates(one: list[float], other: list[float]) -> bool:
    """As good on every sample and better on one."""
    return all(a >= b for a, b in zip(one, other, strict=True)) and any(
        a > b for a, b in zip(one, other, strict=True)
    )


def random_scores(templates: int, samples: int, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    rates = rng.random((templates, 1)) * 0.6
    return (rng.random((templates, samples)) < rates).astype(float)


def best_of(repeats: int, call: Callable[[], Any]) -> float:
    """Seconds of the fastest repetition: the machine's other work only ever adds."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    small, large = random_scores(200, 1000), random_scores(1000, 5000)
    as_lists = small.tolist()
    assert plain_front(as_lists) == non_dominated(small).tolist()
    rng = np.random.default_rng(0)
    result = {
        "front_200x1000_ms": 1e3 * best_of(9, lambda: select_pareto_front(small, WIDTH, rng)),
        "plain_front_200x1000_ms": 1e3 * best_of(3, lambda: plain_front(as_lists)),
        "front_1000x5000_ms": 1e3 * best_of(5, lambda: select_pareto_front(large, WIDTH, rng)),
        "cover_1000x5000_ms": 1e3 * best_of(5, lambda: greedy_cover(large)),
    }
    result["speed_up_200x1000"] = result["plain_front_200x1000_ms"] / result["front_200x1000_ms"]
    for name, value in result.items():
        print(f"{name:28} {value:10.1f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
