"""Make tables and pictures of the runs with a real language model."""

from __future__ import annotations

import html
import json
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import language_instructions
import language_model
import plots
from intervals import Estimate, difference
from language_studied import WORLD
from store import ResultsError, Run
from tables import (
    AREA,
    END,
    Cell,
    accuracy,
    count,
    less,
    number,
    of_arm,
    share,
    table,
)

from prompt_coevo.demo.results import area
from prompt_coevo.demo.unnamed.arms import BUDGET
from prompt_coevo.demo.unnamed.tasks import HARD, PLAIN

GROUPS: Final = {"hard": HARD, "plain": PLAIN}


def _seconds(runs: Sequence[Run]) -> str:
    """Return the mean CPU seconds of the runs that did not emulate bfloat16; a dash if all did."""
    comparable = [run for run in runs if not run.get("emulated")]
    return number("cpu_seconds")(comparable) if comparable else "–"


COSTS: Final[Mapping[str, Cell]] = {
    "training": number("training"),
    "a search": number("outside"),
    "calls": number("calls"),
    "CPU seconds": _seconds,
}
"""A run's costs."""
OTHER_TRAINERS: Final = {"VeRL": "verl_language.json", "OpenRLHF": "openrlhf_language.json"}
"""The files of runs under other trainers than TRL, in the folder of results."""
_ALL: Final = "all questions"
_UNTRAINED: Final = "untrained"
_TOLD: Final = "told"
_FILTERED: Final = "filtered"
"""The mode of openrlhf_effect.py with dynamic sampling."""
_RESULTS: Final = Path(__file__).resolve().parent.parent / "results"
_ANSWERS: Final = 2
"""The number of answers shown per family."""


def summary(runs: Sequence[Run]) -> str:
    """Make tables for each world of runs of another model, or with questions from a file: of all questions
    together, or those that state their task and the others, and of each family.

    Raises ResultsError for no runs, or an unknown arm.
    """
    if not runs:
        raise ResultsError("there are no runs in this file")
    if unknown := {run["arm"] for run in runs} - language_model.ARMS.keys():
        raise ResultsError(
            f"there is no arm {', '.join(sorted(unknown))} any more; delete its runs"
        )
    worlds = dict.fromkeys(run["world"] for run in runs)
    return "\n\n".join(
        _of_one_world([run for run in runs if run["world"] == world]) for world in worlds
    )


def _of_one_world(runs: Sequence[Run]) -> str:
    names = {_UNTRAINED: "before training", **language_model.labels()}
    runs = [*untrained(runs), *runs]
    families = sorted({kind for run in runs for kind, *_ in run["words"].values()})
    stated = [name for name in families if name in PLAIN]
    unstated = [name for name in families if name not in PLAIN]
    main = "task unstated" if stated and unstated else _ALL
    together = scored(runs, {main: unstated or stated, "task stated": stated if unstated else ()})
    columns: dict[str, Cell] = {
        "runs": count,
        main: accuracy(main),
        "area": accuracy(main, AREA),
        "minus GRPO": less(of_arm(together, "grpo"), main),
        **({"task stated": accuracy("task stated")} if main != _ALL else {}),
        **COSTS,
    }
    made = [table(together, list(names), names, columns)]
    if len(families) > 1:
        by_family = scored(runs, {name: (name,) for name in families})
        made.append(
            table(by_family, list(names), names, {name: accuracy(name) for name in families})
        )
    return "\n\n".join(made)


def blocks(runs: Sequence[Run]) -> dict[str, Callable[[], str]]:
    """Return the tables, by name."""
    if models := sorted({run["model"] for run in runs} - {language_model.PUBLISHED}):
        raise ResultsError(
            f"the published runs are of one model; here are some of {', '.join(models)}"
        )
    names = {
        _UNTRAINED: "before training",
        _TOLD: "before training, under the better right template",
        **language_model.labels(),
    }
    of_world = {
        world: _of_one_precision([run for run in runs if run["world"] == world])
        for world in (WORLD, *language_instructions.WORLDS)
    }
    runs = of_world[WORLD]
    every = [*untrained(runs), *told_the_task(runs), *runs]
    grouped, by_family = (
        scored(every, GROUPS),
        scored(every, {name: (name,) for name in HARD + PLAIN}),
    )
    columns: dict[str, Cell] = {
        "runs": count,
        "task unstated": accuracy("hard"),
        "area": accuracy("hard", AREA),
        "minus GRPO": less(of_arm(grouped, "grpo")),
        "task stated": accuracy("plain"),
        "task stated, minus GRPO": less(of_arm(grouped, "grpo"), "plain"),
        **COSTS,
    }
    families = {name: accuracy(name) for name in HARD + PLAIN}
    return {
        "language": lambda: table(grouped, list(names), names, columns),
        "readme-language": lambda: table(
            grouped,
            ("grpo", "stream", "p2o"),
            names,
            {
                name: columns[name]
                for name in ("runs", "task unstated", "minus GRPO", "task stated")
            },
        ),
        "language-families": lambda: table(by_family, list(names), names, families),
        "language-answers": lambda: answers(runs),
        "language-templates": lambda: templates(runs),
        "language-trainers": lambda: trainers(runs, _RESULTS),
        "language-runs": lambda: pairs(runs),
        **{
            f"language-{world}": partial(instructions, of_world[world], task)
            for world, task in language_instructions.WORLDS.items()
        },
    }


def _of_one_precision(runs: list[Run]) -> list[Run]:
    """Return the runs. Raises ResultsError if some multiplied in bfloat16 and others in float32."""
    if len({run.get("bf16", True) for run in runs}) > 1:
        raise ResultsError(
            f"some runs of {runs[0]['world']} multiplied in bfloat16, others in float32: keep one kind"
        )
    return runs


def instructions(runs: Sequence[Run], task: str) -> str:
    """Make a table of the runs in which a system message evolves for one task."""
    names = language_model.labels()
    columns: dict[str, Cell] = {
        "runs": count,
        "under its instruction": accuracy(task),
        "mean over the run": accuracy(task, AREA),
        "without it": share("without instruction"),
        **COSTS,
        "instruction at the end": lambda found: "; ".join(
            dict.fromkeys(_plain(run["instruction"] or "–") for run in found)
        ),
    }
    return table(scored(runs, {task: (task,)}), list(names), names, columns)


def untrained(runs: Sequence[Run]) -> list[Run]:
    """Return what the runs began with (GRPO's, if there are some), as runs of an arm that costs nothing.

    One of each split, because the untrained model is always sampled alike; so it pairs with no run.
    """
    first = {run["draw"]: run for run in of_arm(runs, "grpo") or runs}
    return [
        {
            **run,
            **dict.fromkeys(("training", "outside", "calls", "cpu_seconds"), 0),
            "arm": _UNTRAINED,
            "seed": -1,
            "words": {
                name: [kind, *[points[0]] * len(points)]
                for name, (kind, *points) in run["words"].items()
            },
        }
        for run in first.values()
    ]


def told_the_task(runs: Sequence[Run]) -> list[Run]:
    """Return what the untrained model gets right under the better of each family's two instructions, as
    runs of an arm of its own, one of each split. Plain questions have no such instruction."""
    splits = json.loads((_RESULTS / "language_probe_held_out.json").read_text("utf-8"))["splits"]
    found = {(one["draw"], name): rates for one in splits for name, rates in one["words"].items()}
    better = {
        family: max(
            (1, 2), key=lambda at: sum(one[at] for one in found.values() if one[0] == family)
        )
        for family in HARD
    }

    return [
        {
            **run,
            "arm": _TOLD,
            "words": {
                name: [kind, *[found[run["draw"], name][better[kind]]] * len(points)]
                for name, (kind, *points) in run["words"].items()
                if kind in better
            },
        }
        for run in untrained(runs)
    ]


def across_families(runs: Sequence[Run], better: str, worse: str) -> Estimate | None:
    """Estimate a paired difference at the end with families resampled, not questions.

    Both splits have the same families, so their runs are taken as those of one.
    """
    by_family = scored(runs, {name: (name,) for name in HARD})
    for run in by_family:
        run["seed"], run["draw"] = (run["draw"], run["seed"]), 0
        points = {
            name: [at for kind, at, _ in run["words"].values() if kind == name] for name in HARD
        }
        run["words"] = {name: ["hard", statistics.fmean(at)] for name, at in points.items()}
    return difference(of_arm(by_family, better), of_arm(by_family, worse), "hard", END)


def scored(runs: Sequence[Run], groups: Mapping[str, Sequence[str]]) -> list[Run]:
    """Return runs by groups of families: the share right at the end, and the area."""
    group_of = {family: group for group, families in groups.items() for family in families}
    return [
        {
            **run,
            "words": {
                name: [group_of[kind], points[-1], area(run["spent"], points, run["budget"])]
                for name, (kind, *points) in run["words"].items()
                if kind in group_of
            },
        }
        for run in runs
    ]


def pairs(runs: Sequence[Run]) -> str:
    """Make a table of each split and seed that both main arms ran with."""
    lines = [
        "| split | seed | GRPO | stream | GRPO, task stated | stream, task stated | calls |",
        "|---|---|---|---|---|---|---|",
    ]
    found = {(run["draw"], run["seed"], run["arm"]): run for run in runs}
    for draw, seed, arm in sorted(found):
        if arm == "grpo" and (stream := found.get((draw, seed, "stream"))):
            both = (found[draw, seed, arm]["words"], stream["words"])
            cells = [f"{_ends(one, kinds)[1]:.2f}" for kinds in (HARD, PLAIN) for one in both]
            lines.append(f"| {draw + 1} | {seed} | {' | '.join(cells)} | {stream['calls']} |")
    return "\n".join(lines)


def trainers(runs: Sequence[Run], results: Path) -> str:
    """Make a table of the runs that each trainer made with split 0, seed 0 and both main arms, and of
    OpenRLHF's with dynamic sampling, whose steps are fewer."""
    names = language_model.labels()
    lines = [
        "| trainer | method | before | task unstated | task stated | calls |",
        "|---|---|---|---|---|---|",
    ]
    made = {"TRL": [(run, run["words"], run["calls"]) for run in runs if run["draw"] == 0]}
    for trainer, name in OTHER_TRAINERS.items():
        if (file := results / name).is_file():
            found = json.loads(file.read_text("utf-8"))["runs"]
            made[trainer] = [
                (run, run["scores"]["words"], run["reflection_calls"])
                for run in found
                if (run["draw"], run["train_rollouts"]) == (0, BUDGET)
                and run.get("mode") in (None, _FILTERED)
                and "questions" not in run
            ]
    for trainer, found in made.items():
        for arm in ("grpo", "stream"):
            for run, words, calls in found:
                if (run["arm"], run["seed"]) == (arm, 0):
                    name = names[arm] + ", dynamic sampling" * (run.get("mode") == _FILTERED)
                    hard, plain = (_ends(words, kinds) for kinds in (HARD, PLAIN))
                    cells = (f"{hard[0]:.2f}", f"{hard[1]:.2f}", f"{plain[1]:.2f}", str(calls))
                    lines.append(f"| {trainer} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ends(words: Mapping[str, Sequence[Any]], families: Sequence[str]) -> tuple[float, float]:
    """Return the mean over questions of the share of right answers, before training and at the end."""
    asked = [points for kind, *points in words.values() if kind in families]
    first, last = (statistics.fmean(points[at] for points in asked) for at in (0, -1))
    return first, last


def answers(runs: Sequence[Run]) -> str:
    """Show answers to held-out questions before and after training, of the first seed and split."""
    draw = min((run["draw"] for run in runs), default=0)
    first = {
        run["arm"]: run
        for run in runs
        if (run["seed"], run["draw"]) == (0, draw) and run["arm"] in ("grpo", "stream")
    }
    if len(first) < 2:
        return "Not run yet."
    grpo, stream = first["grpo"], first["stream"]
    lines = ["| question | before | after GRPO | after stream |", "|---|---|---|---|"]
    for family in HARD:
        asked = [name for name, (kind, *_) in stream["words"].items() if kind == family]
        for name in asked[:: max(1, len(asked) // _ANSWERS)][:_ANSWERS]:
            before, after = stream["said"][name]
            cells = (name, before, grpo["said"][name][1], after)
            lines.append(f"| {' | '.join(map(_plain, cells))} |")
    return "\n".join(lines)


def templates(runs: Sequence[Run]) -> str:
    """Show the templates that solved most, of the first run with stream."""
    lines = ["| template | a question that it solved first | answer |", "|---|---|---|"]
    for run in of_arm(runs, "stream")[:1]:
        lines += [f"| {' | '.join(map(_plain, one))} |" for one in run["cracked"]]
    return "\n".join(lines)


def draw(runs: Sequence[Run], folder: Path) -> None:
    """Draw the pictures: all families together, and each alone."""
    runs = [run for run in runs if run["world"] == WORLD]
    names = language_model.labels()
    arms = [name for name in language_model.HEADLINE if of_arm(runs, name)]
    titles = {"task unstated": HARD, "task stated": PLAIN}
    plots.draw(
        {title: _lines(runs, arms, kinds, names) for title, kinds in titles.items()},
        folder / "language.svg",
        "accuracy, held out, no template",
        panel_size=(4.6, 3.2),
    )
    plots.draw(
        {name: _lines(runs, arms, (name,), names) for name in HARD},
        folder / "language-families.svg",
        "accuracy",
        panel_size=(3.4, 2.6),
    )
    plots.draw(
        {"stream, questions that are hard": _under_templates(of_arm(runs, "stream"))},
        folder / "language-templates.svg",
        "share of rollouts solved",
        panel_size=(5.2, 3.0),
    )


def _lines(
    runs: Sequence[Run], arms: Sequence[str], kinds: Sequence[str], names: Mapping[str, str]
) -> list[plots.Line]:
    lines = []
    for arm in arms:
        found = []
        for run in of_arm(runs, arm):
            curves = [points for kind, *points in run["words"].values() if kind in kinds]
            found.append((run["spent"], [sum(at) / len(at) for at in zip(*curves, strict=True)]))
        lines.append(plots.Line(names[arm], found, of_arm(runs, arm)[0]["budget"]))
    return lines


def _under_templates(runs: Sequence[Run]) -> list[plots.Line]:
    """Return shares of solved hard questions, as running means over eleven steps that have them."""
    lines = []
    titles = {"under a template": "templated", "without": "untemplated"}
    for title, name in titles.items():
        found = []
        for run in runs:
            per_step = run["budget"] / len(run["steps"])
            known = [
                ((at + 1) * per_step, step[f"coevo/hard_solved_{name}"])
                for at, step in enumerate(run["steps"])
                if f"coevo/hard_solved_{name}" in step
            ]
            if known:
                found.append(([at for at, _ in known], _smooth([value for _, value in known])))
        lines.append(plots.Line(title, found, runs[0]["budget"] if runs else 0))
    return lines


def _smooth(values: Sequence[float], width: int = 11) -> list[float]:
    halves = width // 2
    windows = [values[max(0, at - halves) : at + halves + 1] for at in range(len(values))]
    return [sum(window) / len(window) for window in windows]


def _plain(text: str) -> str:
    """Escape a model's words for a table cell, so that none of them is markup."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"[|`*_\[\]\\$~]", lambda mark: f"&#{ord(mark[0])};", escaped)
