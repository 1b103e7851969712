"""Compare front selection and cover with what a user could use instead.

    python benchmarks/pareto.py [--json FILE]

Instead of the front: numpy's matrix product for binary scores, as one would write it; the paper's own
loops in plain Python, with an early exit; gepa's removal of dominated programs, which answers another
question (is it among the best of some sample), but is what a user of gepa runs. Scores are binary:
`random`, each template with its own success rate below 60 %, and `near`, copies of twenty templates with
one sample in a hundred changed. Milliseconds, the fastest of some repetitions, on one thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

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
    """Compute the front as in Algorithm 4, lines 1 to 16."""
    front = []
    for i, mine in enumerate(scores):
        if not any(j != i and dominates(theirs, mine) for j, theirs in enumerate(scores)):
            front.append(i)
    return front


def dominates(one: list[float], other: list[float]) -> bool:
    """Tell whether one is as good on every sample and better on one."""
    return all(a >= b for a, b in zip(one, other, strict=True)) and any(
        a > b for a, b in zip(one, other, strict=True)
    )


def random_scores(templates: int, samples: int, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    rates = rng.random((templates, 1)) * 0.6
    return (rng.random((templates, samples)) < rates).astype(float)


def best_of(repeats: int, call: Callable[[], Any]) -> float:
    """Return the seconds of the fastest repetition: the machine's other work only ever adds."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def near_copies(templates: int, samples: int, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    scores = random_scores(20, samples, seed)[rng.integers(20, size=templates)]
    flipped = rng.random(scores.shape) < 0.01
    return np.where(flipped, 1 - scores, scores)


def matrix_product(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    sets = scores.astype(np.float32)
    common = sets @ sets.T
    sizes = common.diagonal()
    return ((common == sizes[:, None]) & (sizes > sizes[:, None])).any(axis=1)


def by_gepa(scores: np.ndarray[Any, Any]) -> dict[Any, set[int]]:
    from gepa.gepa_utils import remove_dominated_programs

    best = {
        n: set(np.flatnonzero(column == column.max()).tolist()) for n, column in enumerate(scores.T)
    }
    weights = dict(enumerate(scores.mean(axis=1)))
    found: dict[Any, set[int]] = remove_dominated_programs(best, weights)
    return found


def measure(name: str, scores: np.ndarray[Any, Any], slow: bool) -> dict[str, Any]:
    """Return one row of the table; `slow` includes methods that take seconds on large tables."""
    rng = np.random.default_rng(0)
    dominated = np.flatnonzero(~matrix_product(scores)).tolist()
    assert non_dominated(scores).tolist() == dominated
    row = {
        "scores": name,
        "templates": scores.shape[0],
        "samples": scores.shape[1],
        "front": 1e3 * best_of(5, lambda: select_pareto_front(scores, WIDTH, rng)),
        "matrix_product": 1e3 * best_of(5, lambda: matrix_product(scores)),
        "cover": 1e3 * best_of(5, lambda: greedy_cover(scores)),
    }
    if slow:
        as_lists = scores.tolist()
        row["plain_python"] = 1e3 * best_of(1, lambda: plain_front(as_lists))
        row["gepa"] = 1e3 * best_of(1, lambda: by_gepa(scores))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = ((150, 300), (200, 1000), (1000, 5000))
    kinds = {"random": random_scores, "near": near_copies}
    rows = [
        measure(name, make(*size), slow=size[0] < 1000)
        for name, make in kinds.items()
        for size in sizes
    ]
    for row in rows:
        print(
            "  ".join(
                f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
            )
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
