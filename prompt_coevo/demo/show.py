"""The demo's table, picture and JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prompt_coevo.demo.arms import arm
from prompt_coevo.demo.results import ArmResult

_COLUMNS: Final[Mapping[str, tuple[Callable[[ArmResult], float], int]]] = {
    "hard": (lambda result: result.curve("hard")[-1], 2),
    "medium": (lambda result: result.curve("medium")[-1], 2),
    "easy": (lambda result: result.curve("easy")[-1], 2),
    "hard,\nlonger": (lambda result: result.last["longer"].right / result.last["longer"].asked, 2),
    "hard,\narea": (lambda result: result.area("hard"), 2),
    "training\nrollouts": (lambda result: result.train_rollouts, 0),
    "other\nrollouts": (lambda result: result.other_rollouts, 0),
    "calls": (lambda result: result.calls, 0),
    "seconds": (lambda result: result.seconds, 0),
}
"""What a column shows of a run, and with how many digits."""
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
_MARKERS: Final = "osD^vXP"


def print_table(results: Sequence[ArmResult], console: Console) -> None:
    """Mean and standard deviation per arm."""
    seeds = len({result.seed for result in results})
    table = Table(
        title="Accuracy on held-out questions, greedy, without any template, under the best "
        f"instruction where there is one ({seeds} seed{'s' * (seeds != 1)})",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("", no_wrap=True)
    for title in _COLUMNS:
        table.add_column(title, justify="right")
    for name, runs in _by_arm(results).items():
        cells = [_cell([of(run) for run in runs], digits) for of, digits in _COLUMNS.values()]
        table.add_row(arm(name).label, *cells)
    console.print(table)


def print_cracked(results: Sequence[ArmResult], console: Console, count: int = 2) -> None:
    """Evolved templates with a question that each of them cracked."""
    found = [item for result in results for item in result.cracked][:count]
    if not found:
        return
    console.print("\nTemplates that evolved, and a question that each of them cracked:\n")
    for item in found:
        console.print(Text(f"  template  {item.template}"))
        console.print(Text(f"  question  {item.question}"))
        console.print(Text(f"  answer    {item.answer}\n"))


def print_instructions(results: Sequence[ArmResult], console: Console) -> None:
    """The best instruction of every run that has one."""
    found = [result for result in results if result.instruction]
    if found:
        console.print("\nBest instructions:\n")
    for result in found:
        console.print(Text(f"  {arm(result.arm).label}, seed {result.seed}: {result.instruction}"))


def draw(results: Sequence[ArmResult], path: Path) -> None:
    """Accuracy over all rollouts, a panel for each kind of word. A band holds all seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
    for panel, kind in zip(panels, ("hard", "medium", "easy"), strict=True):
        for number, (name, runs) in enumerate(_by_arm(results).items()):
            _draw_line(panel, number, arm(name).label, runs, kind)
        panel.set(title=f"{kind} words", xlabel="all rollouts", ylim=(-0.03, 1.03))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_line(panel: Any, number: int, label: str, runs: Sequence[ArmResult], kind: str) -> None:
    grid = np.linspace(0, runs[0].budget, 25)
    values = np.array([np.interp(grid, run.spent, run.curve(kind)) for run in runs])
    colour = _COLOURS[number % len(_COLOURS)]
    panel.fill_between(grid, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15)
    panel.plot(
        grid,
        values.mean(axis=0),
        color=colour,
        label=label,
        linewidth=max(
            1.2, 3.2 - 0.35 * number
        ),  # a line on another one leaves its edges to be seen
        marker=_MARKERS[number % len(_MARKERS)],
        markevery=(number % 4, 4),
    )


def as_json(results: Sequence[ArmResult], command: str) -> dict[str, Any]:
    """Every single run, and the means of each arm."""
    return {
        "command": command,
        "summary": {
            name: {
                title.replace("\n", " "): statistics.fmean(of(run) for run in runs)
                for title, (of, _) in _COLUMNS.items()
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
