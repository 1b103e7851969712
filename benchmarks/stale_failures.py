"""Measure the cost of overlapped reflection's candidates coming from failures that are some steps old.

    python benchmarks/stale_failures.py [--worlds C,N] [--seeds 10] [--json FILE]

INSPO with `inspo.reflection = "overlapped"` against `blocking`, in the worlds of `instruction_trials`. A
reply is used exactly `inspo.overlap_steps` after its request, so latency plays no part. Measured are all
effects of lateness: failures are older, instructions join later, and of two rounds the second may come too
late. Arms with one round an evolution have as many calls at any overlap that the schedule allows. `end`
and `area` are as in `instruction_trials`; `better` is the share of the candidates tried that were truly
better than their parent at the verdict, `gain` by how much the mean candidate was. Differences are paired
by seed, with twice their standard error.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

from instruction_trials import run

Run = Mapping[str, Any]

SCHEDULES: Final[Mapping[str, tuple[Mapping[str, int], tuple[int, ...]]]] = {
    "every 15, one round": ({"evolve_every": 15, "rounds": 1}, (1, 5, 14)),
    "every 15, two rounds": ({"evolve_every": 15, "rounds": 2}, (1, 5, 7)),
    "every 30, one round": ({"evolve_every": 30, "rounds": 1}, (15, 29)),
}
"""How often instructions evolve, and the overlaps tried: with one round up to the largest that the settings
allow, with two up to the largest that leaves time for the second."""
BLOCKING: Final = "blocking"


def arms() -> dict[str, dict[str, Any]]:
    """Return the settings of every arm, by schedule and overlap."""
    found: dict[str, dict[str, Any]] = {}
    for schedule, (settings, overlaps) in SCHEDULES.items():
        found[_name(schedule, BLOCKING)] = dict(settings)
        for steps in overlaps:
            found[_name(schedule, str(steps))] = {
                **settings,
                "reflection": "overlapped",
                "overlap_steps": steps,
            }
    return found


def _name(schedule: str, overlap: str) -> str:
    return f"{schedule}; {overlap}"


def table(runs: Sequence[Run]) -> str:
    """Return a row for each world, schedule and overlap."""
    lines = [
        "| world | evolutions | overlap_steps | end | area | end less blocking's | area less | better "
        "| gain | tried | calls | rollouts outside |",
        "|" + "---|" * 12,
    ]
    by_arm: dict[tuple[str, str], dict[int, Run]] = {}
    for one in runs:
        by_arm.setdefault((one["world"], one["arm"]), {})[one["seed"]] = one
    for (world, arm), chosen in by_arm.items():
        schedule, overlap = arm.split("; ")
        others = by_arm[world, _name(schedule, BLOCKING)]
        cells = [_mean(chosen, "end"), _mean(chosen, "area")]
        late = overlap != BLOCKING
        cells += [_difference(chosen, others, name) if late else "" for name in ("end", "area")]
        tried = sum(one["tried"] for one in chosen.values())
        better = sum(one["better"] for one in chosen.values())
        gain = statistics.mean(one["gain of a candidate"] for one in chosen.values())
        cells += [f"{100 * better / tried:.0f} %", f"{gain:+.4f}"]
        for name in ("tried", "calls", "outside"):
            cells += [f"{statistics.mean(one[name] for one in chosen.values()):.0f}"]
        lines.append(f"| {world} | {schedule} | {overlap} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(runs: Mapping[int, Run], name: str) -> str:
    values = [one[name] for one in runs.values()]
    return f"{statistics.mean(values):.3f} ± {statistics.pstdev(values):.3f}"


def _difference(runs: Mapping[int, Run], others: Mapping[int, Run], name: str) -> str:
    pairs = [one[name] - others[seed][name] for seed, one in runs.items()]
    error = statistics.stdev(pairs) / len(pairs) ** 0.5
    return f"{statistics.mean(pairs):+.3f} ± {2 * error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--worlds", default="C,N")
    parser.add_argument("--seeds", type=int, default=10, help="at least two")
    parser.add_argument("--schedules", default=";".join(SCHEDULES), help="separated by semicolons")
    parser.add_argument("--json", type=Path, help="runs that it holds are not made again")
    options = parser.parse_args()
    known = arms()
    chosen = [arm for arm in known if arm.split("; ")[0] in options.schedules.split(";")]
    runs: list[Run] = []
    if options.json and options.json.exists():
        runs = json.loads(options.json.read_text("utf-8"))
    made = {(one["world"], one["arm"], one["seed"]) for one in runs}
    for job in product(range(100, 100 + options.seeds), options.worlds.split(","), chosen):
        seed, world, arm = job
        if (world, arm, seed) not in made:
            runs.append(run(world, arm, seed, known))
            if options.json:
                options.json.write_text(json.dumps(runs, indent=1) + "\n", "utf-8")
    print(table(runs))


if __name__ == "__main__":
    main()
