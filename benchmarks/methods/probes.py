"""Make tables of files that no tier has: pass rates of the untrained language model, its runs with other
questions, and the small world under VeRL and OpenRLHF."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from language_page import summary
from probe_tables import families, rate, rules, templates

RESULTS: Final = Path(__file__).resolve().parent.parent / "results"


def blocks() -> dict[str, Callable[[], str]]:
    """Return the tables, by name."""
    return {
        "language-probe": lambda: families(_json("language_probe.json")),
        "language-probe-rules": lambda: rules(_json("language_probe_rules.json")),
        "language-probe-gym": gym,
        "language-probe-gym-64": gym_sampled,
        "language-rules": lambda: _runs("language_rules.jsonl"),
        "language-gym": lambda: _runs("language_gym.jsonl"),
        "trainers-small": small_world,
    }


def gym() -> str:
    """Show the families of reasoning-gym in which a template makes more whole completions right, and name
    the others."""
    lines, others = ["| family | bare | template | under it |", "|---|---|---|---|"], list[str]()
    for one in _json("language_probe_gym.json")["families"]:
        name = max(templates(one), key=lambda name: one[name]["whole"][0])
        bare, under = one["bare"]["whole"][0], one[name]["whole"][0]
        if under > bare:
            cells = (one["family"], rate(bare), html.escape(name), rate(under))
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
        name = max(templates(one), key=lambda name: one[name]["whole"])
        cells = (one["family"], *_whole(one["bare"]), html.escape(name), *_whole(one[name]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _whole(found: Mapping[str, Sequence[float]]) -> tuple[str, str]:
    right, items = found["whole"]
    return f"{right:.3f}", rate(items)


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


def _runs(name: str) -> str:
    """Show the runs of a file with other questions than the published ones."""
    lines = map(json.loads, (RESULTS / name).read_text("utf-8").splitlines())
    return summary([line for line in lines if "arm" in line])


def _json(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))
