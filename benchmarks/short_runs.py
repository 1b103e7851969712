"""Run the stream under TRL on questions that come once or twice: accuracy and calls.

    python benchmarks/short_runs.py [--passes 1,2] [--arms stream,no-first-sight] [--seeds 5] [--json FILE]

The demo's world and transformer at its budget of rollouts, with as many questions as make one or two
passes. `hard` is the accuracy on held-out questions without any template at the end, `area` its mean over
the budget. `random` arms have a teacher whose rules are all invented.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

import torch

from prompt_coevo.demo import train as demo
from prompt_coevo.demo.arms import ARMS, BUDGET, GROUP_SIZE
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.results import area
from prompt_coevo.demo.teacher import teacher

VALUES: Final[Mapping[str, Mapping[str, Any]]] = {
    "stream": {},
    "no-first-sight": {"first_sight": False},
    "random": {},
    "random-no-first-sight": {"first_sight": False},
}


def run(arm: str, seed: int, passes: int) -> dict[str, Any]:
    """Train once, on the questions of this many passes."""
    torch.set_num_threads(1)
    spec = ARMS["stream"]
    values = dict(spec.values or {})
    values["stream"] = {**values["stream"], **VALUES[arm]}
    error = {"error": 1.0} if arm.startswith("random") else {}
    questions = BUDGET // (GROUP_SIZE * passes)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(
            arm,
            type(spec)(spec.label, values),
            seed,
            Path(folder),
            reflection={"function": teacher(seed=seed, **error)},
            questions=questions,
        )
        result = demo.train(job, lambda spent, hard: None)
    ends = {f"{kind}": round(result.curve(kind)[-1], 4) for kind in ("hard", "medium", "easy")}
    return {
        "passes": passes,
        "questions": questions,
        "arm": arm,
        "seed": seed,
        **ends,
        "area": round(area(result.spent, result.curve("hard"), result.budget), 4),
        "training": result.train_rollouts,
        "calls": result.calls,
        "cpu_seconds": round(result.cpu_seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--passes", default="1,2")
    parser.add_argument("--arms", default="stream,no-first-sight")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="add the runs that it lacks to this file")
    options = parser.parse_args()
    passes, arms = map(int, options.passes.split(",")), options.arms.split(",")
    done = set(map(_key, _rows(options.json)))
    for key in product(arms, range(options.seeds), passes):
        if key in done:
            continue
        found = json.dumps(run(*key))
        print(found, flush=True)
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(f"{found}\n")


def _rows(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _key(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["arm"], row["seed"], row["passes"]


if __name__ == "__main__":
    main()
