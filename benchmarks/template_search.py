"""Compare the template searches in worlds of facts: accuracy over all rollouts, calls, barriers.

    python benchmarks/template_search.py [--worlds "1;B;C"] [--arms "p2o;stream"] [--seeds 3] [--draws 1]
                                         [--rate 0.15] [--against p2o] [--json FILE]

`hard` is the accuracy on new questions with a hard word, without any template, when all rollouts of the
world's budget are spent, training and search together; `area` is its mean over the budget, `medium area`
that of medium words. Barriers are batches that training waits for. Worlds are those of
`methods/tabular_world.py`, arms without a method those of `baselines.py`.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, cycle
from pathlib import Path
from typing import Any, Final

import numpy as np
from baselines import BASELINES, Budget
from methods.tabular_world import (
    WAVES,
    WORLDS,
    Knobs,
    TabularPolicy,
    Teacher,
    TeacherKind,
    World,
)
from verdict import EACH, Apart

from prompt_coevo import Coevolution, Settings
from prompt_coevo.settings.method import Workload

POINTS: Final = 21
RATE: Final = 0.15
"""The step size."""
_ONE: Final = WORLDS["O"]
SHORT: Final = {
    "O, two passes": replace(_ONE, rollouts=2 * _ONE.rollouts),
    "O, half a pass": replace(_ONE, rollouts=_ONE.rollouts // 2),
    "O, 50 000 once": replace(_ONE, questions=50_000, rollouts=300_000),
    "E, one pass": replace(WORLDS["E"], rollouts=6_144),
    "E, two passes": replace(WORLDS["E"], rollouts=12_288),
    "E, 7 168 once": replace(WORLDS["E"], questions=7_168, rollouts=43_008),
    "E, 3 584 twice": replace(WORLDS["E"], questions=3_584, rollouts=43_008),
}
"""Runs that meet their questions at most twice."""


RARE: Final[Mapping[str, Sequence[float]]] = {"R": (0.003,), "R, mixed": (0.001, 0.01)}
"""World C, but the meanings of hard words are believed with these chances, by turns: seldom, not never."""

APART: Final = "apart"
"""No two questions have a word in common."""


@dataclass(frozen=True)
class Arm:
    """One way to train. Without a method there is no search.

    `baseline` is a way of `baselines.py` to spend the rollouts.
    """

    method: str | None = None
    section: Mapping[str, Any] = field(default_factory=dict)
    teacher: TeacherKind = "explains"
    baseline: str | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Changes of its world."""


def _group(size: int) -> Arm:
    """Return an arm with groups of this size, in steps of as many rollouts."""
    return Arm("stream", knobs={"group": size, "batch": 192 // size})


ARMS: Final[Mapping[str, Arm]] = {
    "grpo": Arm(),
    "p2o": Arm("p2o", WAVES),
    "p2o, capped": Arm("p2o", {**WAVES, "calls_per_hard": 1.0}),
    "p2o, bare": Arm("p2o", {**WAVES, "hardness": "bare"}),
    "stream": Arm("stream"),
    "stream, no proof": Arm("stream", {"proof": False}),
    "stream, no likeness": Arm("stream", {"likeness": "none"}),
    "stream, no first sight": Arm("stream", {"first_sight": False}),
    "stream, 16 in use": Arm("stream", {"library_size": 16}),
    "stream, 64 in use": Arm("stream", {"library_size": 64}),
    "stream, 1 024 in use": Arm("stream", {"library_size": 1_024}),
    "stream, tau 0.01": Arm("stream", {"tau": 0.01}),
    "stream, tau 0.5": Arm("stream", {"tau": 0.5}),
    "stream, guessing teacher": Arm("stream", teacher="guesses"),
    "stream, no first sight, guessing teacher": Arm("stream", {"first_sight": False}, "guesses"),
    "stream, silent teacher": Arm("stream", teacher="says nothing"),
    "stream, leaking teacher": Arm("stream", teacher="leaks"),
    "stream, teacher wrong in 95 %": Arm("stream", knobs={"errors": 0.95}),
    "stream, groups of 4": _group(4),
    "stream, groups of 8": _group(8),
    "stream, groups of 64": _group(64),
    "stream, groups of 64, ten times the rollouts": Arm(
        "stream", knobs={"group": 64, "rollouts": 427_000}
    ),
    "hints": Arm("hints"),
    "whole hints": Arm("hints", {"fraction": 1.0}),
    **{name: Arm(baseline=name) for name in BASELINES},
}


def world_of(name: str, draw: int, **changes: Any) -> World:
    if name == APART:
        return Apart(replace(EACH, **changes), draw)
    knobs = WORLDS["C"] if name in RARE else {**WORLDS, **SHORT}[name]
    world = World(replace(knobs, **changes), draw)
    if name not in RARE:
        return world
    for word, chance in zip(np.flatnonzero(world.kinds == 2), cycle(RARE[name])):
        beliefs, meaning = world.first_beliefs[word], world.meanings[word]
        beliefs *= (1 - chance) / (1 - beliefs[meaning])
        beliefs[meaning] = chance
    return world


def run(world_name: str, arm_name: str, seed: int, draw: int, rate: float = RATE) -> dict[str, Any]:
    """Train until the world's rollouts are spent."""
    logging.disable(logging.WARNING)
    arm, world = ARMS[arm_name], world_of(world_name, draw, **ARMS[arm_name].knobs)
    knobs = world.knobs
    policy = TabularPolicy(world, seed, rate)
    teacher = Teacher(policy, knobs, arm.teacher, seed)
    began = time.process_time()
    if arm.baseline:
        steps = BASELINES[arm.baseline](Budget(policy, knobs, seed))
    else:
        steps = _coevolve(engine_for(arm, teacher, seed), policy, knobs, seed)
    curve = [(done, *policy.accuracies()) for done in chain([0], steps)]
    spent, easy, medium, hard = zip(*curve, strict=True)
    grid = np.linspace(0, knobs.rollouts, 200)
    return {
        "world": world_name,
        "arm": arm_name,
        "seed": seed,
        "draw": draw,
        "rate": rate,
        "hard": hard[-1],
        "medium": medium[-1],
        "easy": easy[-1],
        "area": float(np.interp(grid, spent, hard).mean()),
        "medium area": float(np.interp(grid, spent, medium).mean()),
        "training": spent[-1] - policy.rollouts,
        "search": policy.rollouts,
        "calls": teacher.calls,
        "tokens": teacher.tokens,
        "barriers": policy.barriers,
        "epochs": (spent[-1] - policy.rollouts) / (knobs.questions * knobs.group),
        "seconds": time.process_time() - began,
        "curve": np.interp(np.linspace(0, knobs.rollouts, POINTS), spent, hard).round(3).tolist(),
    }


def _coevolve(engine: Coevolution, policy: TabularPolicy, knobs: Knobs, seed: int) -> Iterator[int]:
    """Train with a method. Yield what was spent after every update and every search."""
    trained, ids, order = 0, policy.question_ids(), np.random.default_rng([seed, 3])
    engine.begin(policy, _workload(knobs))
    while trained + policy.rollouts < knobs.rollouts:
        shuffled = [ids[number] for number in order.permutation(len(ids))]
        for start in range(0, len(ids), knobs.batch):
            plan = engine.plan(shuffled[start : start + knobs.batch], knobs.group)
            policy.version = engine.policy_version
            engine.observe(policy.train(plan))
            trained += len(plan)
            spent_all = trained + policy.rollouts >= knobs.rollouts
            engine.step_end(policy, last=spent_all)
            yield trained + policy.rollouts
            if spent_all:
                break
        else:
            engine.epoch_end(policy)
            yield trained + policy.rollouts


def _workload(knobs: Knobs) -> Workload:
    """Return the workload of a run without extra rollouts."""
    epochs = knobs.rollouts / (knobs.questions * knobs.group)
    whole, rest = divmod(knobs.rollouts, knobs.questions * knobs.group)
    steps = whole * math.ceil(knobs.questions / knobs.batch)
    steps += math.ceil(rest / (knobs.batch * knobs.group))
    return Workload(knobs.questions, knobs.group, epochs, steps)


def engine_for(arm: Arm, teacher: Teacher, seed: int) -> Coevolution:
    if arm.method is None:
        return Coevolution.from_settings(Settings(algorithms=(), seed=seed))
    own: dict[str, Any] = {arm.method: dict(arm.section)}
    return Coevolution.from_settings(
        Settings(algorithms=arm.method, reflection={"function": teacher}, seed=seed, **own)
    )


COLUMNS: Final = ("hard", "medium", "easy", "area", "medium area", "search", "calls", "barriers")


def table(runs: Sequence[Mapping[str, Any]], baseline: str) -> str:
    """Return a row per world and arm: means, and the paired difference of the area to the baseline's."""
    lines = [f"| world | arm | runs | {' | '.join(COLUMNS)} | area less {baseline}'s |"]
    lines.append("|---" * (len(COLUMNS) + 4) + "|")
    for world, arm in dict.fromkeys((one["world"], one["arm"]) for one in runs):
        chosen = [one for one in runs if (one["world"], one["arm"]) == (world, arm)]
        cells = [_mean([one[name] for one in chosen]) for name in COLUMNS]
        other = {
            (one["seed"], one["draw"]): one["area"]
            for one in runs
            if (one["world"], one["arm"]) == (world, baseline)
        }
        pairs = [
            one["area"] - other[one["seed"], one["draw"]]
            for one in chosen
            if (one["seed"], one["draw"]) in other
        ]
        cells.append("" if arm == baseline or not pairs else _interval(pairs))
        lines.append(f"| {world} | {arm} | {len(chosen)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> str:
    digits = 3 if max(values) <= 1 else 0
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"


def _interval(pairs: Sequence[float]) -> str:
    """Format the mean difference and twice its standard error."""
    error = statistics.stdev(pairs) / len(pairs) ** 0.5 if len(pairs) > 1 else 0.0
    return f"{statistics.mean(pairs):+.3f} ± {2 * error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--worlds", default=";".join(WORLDS), help="separated by semicolons")
    parser.add_argument("--arms", default="grpo;p2o;stream", help="separated by semicolons")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--rate", type=float, default=RATE, help="the step size")
    parser.add_argument("--against", default="p2o", help="the arm whose area is taken off")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    arms = options.arms.split(";")
    jobs = [
        (world, arm, 100 + seed, draw, options.rate)
        for world in options.worlds.split(";")
        for arm in arms
        for draw in range(options.draws)
        for seed in range(options.seeds)
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(run, *zip(*jobs, strict=True)))
    print(table(runs, options.against))
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
