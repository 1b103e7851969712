"""Compare INSPO's verifications in worlds of facts: accuracy over all rollouts, joins, barriers.

    python benchmarks/instruction_trials.py [--worlds 1,C,N,O] [--arms "blocking;off"]
                                            [--seeds 10] [--json FILE]

`end` is the accuracy on new questions under the best instruction when all rollouts of the world's budget
are spent, training's and verification's together; `area` is its mean over the budget. A join is right if
the candidate was truly better than its parent at the verdict, by the exact mean reward of all training
questions under the weights of that moment; `error` is the root mean square of the measured less the true
difference, `bias` its mean. Barriers are batches that training waits for. See `methods/tabular_world.py`
for the worlds.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from methods.tabular_world import WORLDS, Knobs, TabularPolicy, Teacher, World

from prompt_coevo import Coevolution, Settings, hookimpl
from prompt_coevo.candidates.trials import Trial

TRIED_IN: Final[Mapping[str, Knobs]] = {
    **WORLDS,
    "C x 4": replace(WORLDS["C"], batch=128, rollouts=4 * WORLDS["C"].rollouts),
}
"""x 4: four times the batch, so that a verification is a smaller part of training, as in the paper."""
CLAUSES: Final = 10
"""The most clauses in an instruction."""
FIRST: Final = "remember note"
ARMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "static": {"evolution": "off", "paraphrase": False},
    "blocking": {},
    "off": {"verify": "off"},
}


@dataclass
class Verdicts:
    """Record verdicts, with the true value of each candidate."""

    policy: TabularPolicy
    gains: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    joined: list[float] = field(default_factory=list)

    @hookimpl
    def coevo_after_candidate_verified(self, trial: Trial, accepted: bool) -> None:
        gain = self.policy.worth(trial.child.text) - self.policy.worth(trial.parent.text)
        self.gains.append(gain)
        if trial.question_ids:
            self.errors.append(trial.gain - gain)
        if accepted:
            self.joined.append(gain)


def run(
    world_name: str, arm_name: str, seed: int, arms: Mapping[str, Mapping[str, Any]] = ARMS
) -> dict[str, Any]:
    """Train until the world's rollouts are spent; every seed has another world."""
    logging.disable(logging.WARNING)
    knobs = replace(TRIED_IN[world_name], clauses=CLAUSES)
    policy = TabularPolicy(World(knobs, seed), seed)
    teacher, verdicts = Teacher(policy, knobs, "explains", seed), Verdicts(policy)
    engine = engine_for(arms[arm_name], knobs, teacher, verdicts, seed)
    ids, order = policy.question_ids(), np.random.default_rng([seed, 3])
    engine.begin(policy)
    curve, trained = [(0, _accuracy(engine, policy))], 0
    while trained + policy.rollouts < knobs.rollouts:
        shuffled = [ids[number] for number in order.permutation(len(ids))]
        for start in range(0, len(ids), knobs.batch):
            plan = engine.plan(shuffled[start : start + knobs.batch], knobs.group)
            policy.version = engine.policy_version
            engine.observe(policy.train(plan))
            engine.step_end(policy)
            trained += len(plan)
            curve.append((trained + policy.rollouts, _accuracy(engine, policy)))
            if trained + policy.rollouts >= knobs.rollouts:
                break
        else:
            engine.epoch_end(policy)
    spent, accuracy = zip(*curve, strict=True)
    return {
        "world": world_name,
        "arm": arm_name,
        "seed": seed,
        "end": accuracy[-1],
        "area": float(np.interp(np.linspace(0, knobs.rollouts, 200), spent, accuracy).mean()),
        "without it": policy.accuracy(""),
        "tried": len(verdicts.gains),
        "better": sum(gain > 0 for gain in verdicts.gains),
        "joined": len(verdicts.joined),
        "right": sum(gain > 0 for gain in verdicts.joined),
        "error": float(np.sqrt(np.mean(np.square(verdicts.errors)))) if verdicts.errors else 0.0,
        "bias": float(np.mean(verdicts.errors)) if verdicts.errors else 0.0,
        "gain of a candidate": statistics.mean(verdicts.gains) if verdicts.gains else 0.0,
        "gain of a join": statistics.mean(verdicts.joined) if verdicts.joined else 0.0,
        "training": trained,
        "outside": policy.rollouts,
        "barriers": policy.barriers,
        "calls": teacher.calls,
    }


def engine_for(
    arm: Mapping[str, Any], knobs: Knobs, teacher: Teacher, verdicts: Verdicts, seed: int
) -> Coevolution:
    """Build an engine with the demo's settings: evolution ends after 78 % of training's steps."""
    steps = knobs.rollouts // (knobs.batch * knobs.group)
    inspo = {
        "instruction": FIRST,
        "paraphrase": False,
        "evolve_until": int(0.78 * steps),
        "verify_size": 128,
        "rounds": 2,
        **arm,
    }
    return Coevolution.from_settings(
        Settings(algorithms="inspo", inspo=inspo, reflection={"function": teacher}, seed=seed),
        plugins={"verdicts": verdicts},
    )


def _accuracy(engine: Coevolution, policy: TabularPolicy) -> float:
    instruction = engine.evaluation_instruction()
    return policy.accuracy(instruction.text if instruction else "")


COLUMNS: Final = (
    *("end", "area", "without it", "tried", "better", "joined", "right", "gain of a join"),
    *("error", "bias", "outside", "barriers", "calls"),
)


def table(runs: Sequence[Mapping[str, Any]], baseline: str) -> str:
    """Return a row per world and arm: means, and the paired differences to the baseline's."""
    lines = [f"| world | arm | runs | {' | '.join(COLUMNS)} | end less {baseline}'s | area less |"]
    lines.append("|---" * (len(COLUMNS) + 5) + "|")
    for world, arm in dict.fromkeys((one["world"], one["arm"]) for one in runs):
        chosen = [one for one in runs if (one["world"], one["arm"]) == (world, arm)]
        other = {
            one["seed"]: one for one in runs if (one["world"], one["arm"]) == (world, baseline)
        }
        cells = [_mean([one[name] for one in chosen]) for name in COLUMNS]
        for name in ("end", "area"):
            pairs = [one[name] - other[one["seed"]][name] for one in chosen if one["seed"] in other]
            cells.append("" if arm == baseline or not pairs else _interval(pairs))
        lines.append(f"| {world} | {arm} | {len(chosen)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> str:
    if max(values) > 1:
        return f"{statistics.mean(values):.0f}"
    return f"{statistics.mean(values):.3f} ± {statistics.pstdev(values):.3f}"


def _interval(pairs: Sequence[float]) -> str:
    """Format the mean difference and twice its standard error."""
    error = statistics.stdev(pairs) / len(pairs) ** 0.5 if len(pairs) > 1 else 0.0
    return f"{statistics.mean(pairs):+.3f} ± {2 * error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--worlds", default="1,C,N,O")
    parser.add_argument("--arms", default=";".join(ARMS), help="separated by semicolons")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    jobs = [
        (world, arm, 100 + seed)
        for world in options.worlds.split(",")
        for arm in options.arms.split(";")
        for seed in range(options.seeds)
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(run, *zip(*jobs, strict=True)))
    print(table(runs, "blocking"))
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
