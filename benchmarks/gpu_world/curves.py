"""Runs side by side, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from runs import POINTS, Run


def table(runs: Sequence[Run]) -> str:
    """Two tables: hard words over the budget, and all kinds at its end. Mean and deviation over seeds.

    Only runs of the same world, policy, budget and learning rate stand in one table. `area` is the mean
    of the hard curve. Runs that are not over are named and left out.
    """
    parts = []
    alike: dict[tuple[str, int, int, float], list[Run]] = {}
    for run in runs:
        if run.done:
            key = (run.tier, run.draw, run.budget, run.learning_rate)
            alike.setdefault(key, []).append(run)
    for (tier, draw, budget, rate), of_it in alike.items():
        devices = ", ".join(dict.fromkeys(run.device for run in of_it))
        title = f"{tier}, draw {draw}, {budget} rollouts, learning rate {rate:g}; {devices}"
        parts += [title, _over_the_budget(of_it, budget), _at_the_end(of_it)]
    parts += [
        f"not over: {run.arm}, seed {run.seed}, {len(run.curve)} of {POINTS} points"
        for run in runs
        if not run.done
    ]
    return "\n\n".join(parts)


def _over_the_budget(runs: Sequence[Run], budget: int) -> str:
    points = [f"{budget * (number + 1) // POINTS}" for number in range(POINTS)]
    rows = []
    for arm, of_arm in _by_arm(runs).items():
        curves = [[point["hard"] for point in run.curve] for run in of_arm]
        rows.append([arm, *(_mean(values) for values in zip(*curves, strict=True))])
    return _rows(["hard, after rollouts", *points], rows)


def _at_the_end(runs: Sequence[Run]) -> str:
    rows = []
    for arm, of_arm in _by_arm(runs).items():
        last = [run.curve[-1] for run in of_arm]
        kinds = [_mean([point[kind] for point in last]) for kind in ("hard", "medium", "easy")]
        area = _mean([statistics.mean(point["hard"] for point in run.curve) for run in of_arm])
        counts = [
            _mean([point[name] for point in last], 0) for name in ("rollouts", "search_rollouts")
        ]
        calls = _mean([run.metrics.get("coevo/reflection_calls", 0) for run in of_arm], 0)
        seconds = _mean([run.seconds for run in of_arm], 0)
        rows.append([arm, str(len(of_arm)), *kinds, area, *counts, calls, seconds])
    names = ["hard", "medium", "easy", "area", "rollouts", "of a search", "reflection calls"]
    return _rows(["arm", "runs", *names, "seconds"], rows)


def _by_arm(runs: Sequence[Run]) -> dict[str, list[Run]]:
    arms = dict.fromkeys(run.arm for run in runs)
    return {arm: [run for run in runs if run.arm == arm] for arm in arms}


def _mean(values: Sequence[float], digits: int = 3) -> str:
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in [head, *rows]]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
