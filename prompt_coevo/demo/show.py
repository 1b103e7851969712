"""The demo's table, picture and JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prompt_coevo.demo.arms import ARMS, POINTS, Arm
from prompt_coevo.demo.results import ArmResult
from prompt_coevo.lines import JSON

_Value: TypeAlias = Callable[[ArmResult], float]
_LOOKS: Final = ("o-", "s--", "^-.", "D:", "v-", "P--")
"""Marker and dash of each line, so that no line is told by its colour alone."""
_ANSWERS: Final = 6


@dataclass(frozen=True)
class Exhibit:
    """The arms of a world, and the columns and panels of its question kinds."""

    arms: Mapping[str, Arm]
    title: str
    columns: Mapping[str, tuple[str, ...]]
    """Kinds by column title; a column shows the mean over its kinds at the end. The first also has an area
    column."""
    panels: Mapping[str, tuple[str, ...]]
    points: int
    further: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns of the second table."""

    def cells(self, results: Sequence[ArmResult]) -> dict[str, tuple[_Value, int]]:
        """Return each column's value for a run and its number of digits."""
        cells: dict[str, tuple[_Value, int]] = {
            title: (lambda run, kinds=kinds: run.curve(*kinds)[-1], 2)  # type: ignore[misc]
            for title, kinds in self.columns.items()
        }
        first, kinds = next(iter(self.columns.items()))
        for name in results[0].last:
            cells[f"{first},\n{name}"] = (
                lambda run, name=name: run.last[name].right / run.last[name].asked,  # type: ignore[misc]
                2,
            )
        return cells | {
            f"{first},\narea": (lambda run: run.area(*kinds), 2),
            "training\nrollouts": (lambda run: run.train_rollouts, 0),
            "other\nrollouts": (lambda run: run.other_rollouts, 0),
            "calls": (lambda run: run.calls, 0),
            "seconds": (lambda run: run.seconds, 0),
        }


_KINDS: Final = {kind: (kind,) for kind in ("hard", "medium", "easy")}
FACTS: Final = Exhibit(
    ARMS,
    "Accuracy on held-out questions, greedy, without any template, under the best instruction where "
    "there is one",
    _KINDS,
    {f"{kind} words": kinds for kind, kinds in _KINDS.items()},
    POINTS,
)


def print_table(results: Sequence[ArmResult], console: Console, exhibit: Exhibit = FACTS) -> None:
    """Print mean and standard deviation per arm."""
    seeds = len({result.seed for result in results})
    table = Table(title=f"{exhibit.title} ({seeds} seed{'s' * (seeds != 1)})", box=box.SIMPLE_HEAD)
    _fill(table, exhibit.cells(results), results, exhibit, console)
    if exhibit.further:
        further = {
            title: (lambda run, kinds=kinds: run.curve(*kinds)[-1], 2)
            for title, kinds in exhibit.further.items()
        }
        _fill(Table(box=box.SIMPLE_HEAD), further, results, exhibit, console)


def _fill(
    table: Table,
    columns: Mapping[str, tuple[_Value, int]],
    results: Sequence[ArmResult],
    exhibit: Exhibit,
    console: Console,
) -> None:
    table.add_column("", no_wrap=True)
    for title in columns:
        table.add_column(title, justify="right")
    for name, runs in _by_arm(results).items():
        cells = [_cell([of(run) for run in runs], digits) for of, digits in columns.values()]
        table.add_row(exhibit.arms[name].label, *cells)
    console.print(table)


def print_answers(results: Sequence[ArmResult], console: Console) -> None:
    """Print answers before and after training to questions that the policy learned."""
    for result in results:
        learned = [
            (name, result.said[name])
            for name, score in result.words.items()
            if name in result.said and score.right[-1] > score.right[0]
        ]
        if learned and result.arm != "grpo":
            console.print("\nHeld-out questions, without a template, before training and after:\n")
            for question, (first, last) in learned[:: max(1, len(learned) // _ANSWERS)][:_ANSWERS]:
                for title, text in (("question", question), ("before", first), ("after", last)):
                    console.print(Text(f"  {title:9} {' '.join(text.split())}"))
                console.print()
            return


def print_cracked(results: Sequence[ArmResult], console: Console) -> None:
    """Print two evolved templates, each with a question that it cracked."""
    found = [item for result in results for item in result.cracked][:2]
    if not found:
        return
    console.print("\nTemplates that evolved, and a question that each of them cracked:\n")
    for item in found:
        console.print(Text(f"  template  {item.template}"))
        console.print(Text(f"  question  {item.question}"))
        console.print(Text(f"  answer    {item.answer}\n"))


def print_instructions(
    results: Sequence[ArmResult], console: Console, exhibit: Exhibit = FACTS
) -> None:
    """Print the best instruction of every run that has one."""
    found = [result for result in results if result.instruction]
    if found:
        console.print("\nBest instructions:\n")
    for result in found:
        console.print(
            Text(f"  {exhibit.arms[result.arm].label}, seed {result.seed}: {result.instruction}")
        )


def draw_curves(results: Sequence[ArmResult], path: Path, exhibit: Exhibit = FACTS) -> None:
    """Draw accuracy over all rollouts, one panel per kind. The band covers all seeds of an arm."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    count = len(exhibit.panels)
    figure, panels = pyplot.subplots(
        1, count, figsize=(5 * count, 3.6), sharey=True, layout="constrained"
    )
    for panel, (title, kinds) in zip(panels, exhibit.panels.items(), strict=True):
        for look, (name, runs) in zip(cycle(_LOOKS), _by_arm(results).items(), strict=False):
            grid = np.linspace(0, runs[0].budget, exhibit.points + 1)
            values = np.array([np.interp(grid, run.spent, run.curve(*kinds)) for run in runs])
            (line,) = panel.plot(grid / 1000, values.mean(0), look, label=exhibit.arms[name].label)
            band = (values.min(0), values.max(0))
            panel.fill_between(grid / 1000, *band, color=line.get_color(), alpha=0.12, lw=0)
        panel.set(title=title, xlabel="all rollouts, in thousands", ylim=(-0.03, 1.03))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy on new questions")
    panels[0].legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def as_json(
    results: Sequence[ArmResult], command: str, exhibit: Exhibit = FACTS
) -> dict[str, JSON]:
    """Return every run's numbers and the means of each arm."""
    return {
        "command": command,
        "summary": {
            name: {
                title.replace("\n", " "): statistics.fmean(of(run) for run in runs)
                for title, (of, _) in exhibit.cells(results).items()
            }
            for name, runs in _by_arm(results).items()
        },
        "runs": [result.to_json() for result in results],
    }


def _by_arm(results: Sequence[ArmResult]) -> dict[str, list[ArmResult]]:
    names = dict.fromkeys(result.arm for result in results)
    return {name: [result for result in results if result.arm == name] for name in names}


def _cell(values: Sequence[float], digits: int) -> str:
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}"
