"""Make tables of files that no tier has: pass rates of the untrained language model, its runs with other
questions, and the small world under VeRL and OpenRLHF."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import language_model
from language_page import COSTS, scored
from store import Run
from tables import Cell, accuracy, count, table

from prompt_coevo.demo.unnamed.tasks import PLAIN

RESULTS: Final = Path(__file__).resolve().parent.parent / "results"
_NO_TEMPLATE: Final = frozenset({"family", "rule", "question", "items", "bare", "all six"})


def blocks() -> dict[str, Callable[[], str]]:
    """Return the tables, by name."""
    return {
        "language-probe": families,
        "language-probe-rules": rules,
        "language-probe-gym": gym,
        "language-probe-gym-64": gym_sampled,
        "language-rules": lambda: other_questions("language_rules.jsonl"),
        "language-gym": lambda: other_questions("language_gym.jsonl"),
        "trainers-small": small_world,
    }


def families() -> str:
    """Show pass rates per family: bare, under the better of two instructions, and under one for all."""
    lines = [
        "| family | bare, pass@1 | pass@16 | better instruction, pass@1 | pass@16 | one for all, pass@1 |",
        "|---|---|---|---|---|---|",
    ]
    for one in _json("language_probe.json")["families"]:
        found = [*_rates(one["bare"]), *_best(one, "right")[1:]]
        found.append(_rate(one["all six"]["right"]) if "all six" in one else "–")
        lines.append(f"| {one['family']} | {' | '.join(found)} |")
    return "\n".join(lines)


def rules() -> str:
    """Show pass rates per form that nobody asks for, bare and under the better template."""
    lines = [
        "| form | a question | bare, pass@1 | pass@16 | better template | pass@1 | pass@8 |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in _json("language_probe_rules.json")["rules"]:
        cells = (one["rule"], one["question"], *_rates(one["bare"]), *_best(one, "right"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def gym() -> str:
    """Show the families of reasoning-gym in which a template makes more whole completions right, and name
    the others."""
    lines, others = ["| family | bare | template | under it |", "|---|---|---|---|"], list[str]()
    for one in _json("language_probe_gym.json")["families"]:
        name = max(_templates(one), key=lambda name: one[name]["whole"][0])
        bare, under = one["bare"]["whole"][0], one[name]["whole"][0]
        if under > bare:
            cells = (one["family"], _rate(bare), html.escape(name), _rate(under))
            lines.append(f"| {' | '.join(cells)} |")
        else:
            others.append(one["family"])
    lines += ["", *textwrap.wrap(f"In these no template does: {', '.join(others)}.", 130)]
    return "\n".join(lines)


def gym_sampled() -> str:
    """Show the families of `gym` with more samples of each item."""
    found = _json("language_probe_gym_64.json")
    bare, under = (f"pass@1 | pass@{found[name]}" for name in ("bare", "samples"))
    lines = [f"| family | bare, {bare} | template | {under} |", "|---|---|---|---|---|---|"]
    for one in found["families"]:
        name = max(_templates(one), key=lambda name: one[name]["whole"])
        cells = (one["family"], *_whole(one["bare"]), html.escape(name), *_whole(one[name]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _whole(found: Mapping[str, Sequence[float]]) -> tuple[str, str]:
    right, items = found["whole"]
    return f"{right:.3f}", _rate(items)


def other_questions(file: str) -> str:
    """Show the runs of a file with other questions than the published ones: accuracy, held out."""
    text = (RESULTS / file).read_text("utf-8")
    runs = [run for run in map(json.loads, text.splitlines()) if "arm" in run]
    asked = sorted({kind for run in runs for kind, *_ in run["words"].values()} & set(PLAIN))
    unsaid = sorted({kind for run in runs for kind, *_ in run["words"].values()} - set(asked))
    groups = {"task unstated": unsaid, "task stated": asked}
    groups |= {name: [name] for name in unsaid}
    # `scored` puts a family in one group, so the runs are scored once per column.
    columns: dict[str, Cell] = {"runs": count}
    columns |= {name: _of_group(name, kinds) for name, kinds in groups.items()}
    columns |= {name: COSTS[name] for name in ("calls", "CPU seconds")}
    names = language_model.labels()
    return "\n".join(
        [*_before(runs, groups, columns), *table(runs, list(names), names, columns).split("\n")[2:]]
    )


def _before(
    runs: Sequence[Run], groups: Mapping[str, Sequence[str]], columns: Mapping[str, Cell]
) -> Iterator[str]:
    """Yield the head of the table, and a row of the model before training."""
    yield f"| | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    cells = dict.fromkeys(columns, "")
    for name, kinds in groups.items():
        points = [
            first for run in runs for kind, first, *_ in run["words"].values() if kind in kinds
        ]
        cells[name] = f"{sum(points) / len(points):.2f}"
    yield f"| before | {' | '.join(cells.values())} |"


def _of_group(name: str, kinds: Sequence[str]) -> Cell:
    return lambda runs: accuracy(name)(scored(runs, {name: kinds}))


def small_world() -> str:
    """Show the demo's world under VeRL and OpenRLHF, with the search as it was then."""
    lines = [
        "| trainer | method | hard | medium | easy | training | others | calls | seconds a step |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    names = {"grpo": "GRPO", "stream_riders": "`stream`, others beside the batch"}
    for trainer in ("OpenRLHF", "VeRL"):
        found = {
            run["arm"]: run
            for run in _json(f"{trainer.lower()}_effect.json")["runs"]
            if run["world"] == "facts"
        }
        for arm, name in names.items():
            run = found[arm]
            cells = [f"{trainer}, {run['epochs']} epochs", name]
            cells += [f"{run['scores'][kind]:.2f}" for kind in ("hard", "medium", "easy")]
            counts = (run["train_rollouts"], run["generated_besides"], run["reflection_calls"])
            cells += [f"{one:,}".replace(",", " ") for one in counts]
            lines.append(f"| {' | '.join([*cells, format(run['seconds_per_step'], '.1f')])} |")
    return "\n".join(lines)


def _json(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))


def _templates(one: Mapping[str, Any]) -> list[str]:
    return [name for name in one if name not in _NO_TEMPLATE]


def _best(one: Mapping[str, Any], key: str) -> tuple[str, str, str]:
    """Return the template with the highest rate, and its two rates."""
    if not (names := _templates(one)):
        return "–", "–", "–"
    name = max(names, key=lambda name: one[name][key])
    return (html.escape(name, quote=False), *_rates(one[name]))


def _rates(found: Mapping[str, float]) -> tuple[str, str]:
    return _rate(found["right"]), _rate(found["items"])


def _rate(value: float) -> str:
    return f"{value:.2f}"
