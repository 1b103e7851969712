"""Make tables of runs with a table as policy that `benchmarks/template_search.py` and `verdict.py` made."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import verdict
from probes import RESULTS

_LABELS: Final = {
    "grpo": "GRPO",
    "p2o": "P2O",
    "p2o, bare": 'P2O, `hardness = "bare"`',
    "stream": "`stream`",
    "hints": "hints, half",
    "whole hints": "hints, whole",
}
_USUAL_RATE: Final = 0.15
_LARGE_RATE: Final = 1.2

Row = Mapping[str, Any]


def blocks() -> dict[str, Callable[[], str]]:
    """Return the tables, by name."""
    return {
        "searches": lambda: table(_of("template_search.json", ("p2o", "stream")), "p2o"),
        "searches-parts": lambda: table(
            [*_of("template_search_c.json"), *_of("template_search_e.json")], "stream"
        ),
        "searches-teachers": lambda: table(_of("template_search_must.json"), "stream"),
        "samplers": lambda: table(_at(_USUAL_RATE), "grpo"),
        "samplers-large-steps": lambda: table(_at(_LARGE_RATE), "grpo"),
        "short-runs": short_runs,
        "verdict-truth": lambda: "\n".join(verdict.table()),
    }


def table(runs: Sequence[Row], baseline: str) -> str:
    """Return a row per world and arm, with the paired difference of the area to the baseline's."""
    less = f"area, minus {_LABELS[baseline].strip('`')}"
    lines = [f"| world | | runs | hard, end | area | {less} | search rollouts | calls | waits |"]
    lines.append("|---" * 9 + "|")
    worlds = list(dict.fromkeys(run["world"] for run in runs))
    kinds = dict.fromkeys((run["world"], run["arm"]) for run in runs)
    for world, arm in sorted(kinds, key=lambda kind: worlds.index(kind[0])):
        chosen = [run for run in runs if (run["world"], run["arm"]) == (world, arm)]
        others = {
            (run["seed"], run["draw"]): run["area"]
            for run in runs
            if (run["world"], run["arm"]) == (world, baseline)
        }
        pairs = [
            run["area"] - others[key]
            for run in chosen
            if (key := (run["seed"], run["draw"])) in others
        ]
        cells = [world, _LABELS.get(arm, arm), str(len(chosen)), *_accuracy(chosen)]
        cells.append(_difference(pairs) if pairs and arm != baseline else "")
        cells += [_count(run[name] for run in chosen) for name in ("search", "calls", "barriers")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def short_runs() -> str:
    """Return a row per kind of short run, each with the code that made it."""
    trl = (RESULTS / "short_runs_trl.jsonl").read_text("utf-8").splitlines()
    runs: list[dict[str, Any]] = json.loads((RESULTS / "short_runs.json").read_text("utf-8"))
    unique = {(run["code"], run["world"], run["arm"], run["seed"]): run for run in runs}
    found = list(unique.values())
    for run in map(json.loads, trl):
        often = "once" if run["passes"] == 1 else "twice"
        found.append({**run, "world": f"TRL, {run['questions']} {often}"})
    lines = ["| run | | code | runs | hard, end | area | calls |", "|---" * 7 + "|"]
    for key in sorted({(run["world"], run["arm"], run["code"]) for run in found}):
        chosen = [run for run in found if (run["world"], run["arm"], run["code"]) == key]
        world, arm, code = key
        cells = [world, _LABELS.get(arm, arm), code, str(len(chosen)), *_accuracy(chosen)]
        lines.append(f"| {' | '.join([*cells, _count(run['calls'] for run in chosen)])} |")
    return "\n".join(lines)


def _of(file: str, arms: Sequence[str] | None = None) -> list[Row]:
    runs: list[Row] = json.loads((RESULTS / file).read_text("utf-8"))
    return [run for run in runs if arms is None or run["arm"] in arms]


def _at(rate: float) -> list[Row]:
    return [run for run in _of("baselines.json") if run["rate"] == rate]


def _accuracy(runs: Sequence[Row]) -> tuple[str, str]:
    """Return accuracy on hard words at the end, and its mean over the run: mean ± deviation."""
    return _mean([run["hard"] for run in runs], 2), _mean([run["area"] for run in runs], 3)


def _mean(values: Sequence[float], digits: int) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"


def _difference(pairs: Sequence[float]) -> str:
    """Return the mean difference, ± twice its standard error."""
    error = statistics.stdev(pairs) / len(pairs) ** 0.5 if len(pairs) > 1 else 0.0
    return f"{statistics.mean(pairs):+.3f} ± {2 * error:.3f}"


def _count(values: Any) -> str:
    return f"{statistics.fmean(values):,.0f}".replace(",", " ")
