"""The demo's table, picture and JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prompt_coevo.demo.arms import POINTS, arm
from prompt_coevo.demo.results import ArmResult

_LOOKS: Final = ("o-", "s--", "^-.", "D:", "v-", "P--")
"""Marker and dash of each line, so that none depends on its colour."""
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


def print_cracked(results: Sequence[ArmResult], console: Console) -> None:
    """Two evolved templates with a question that each of them cracked."""
    found = [item for result in results for item in result.cracked][:2]
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


def draw_curves(results: Sequence[ArmResult], path: Path) -> None:
    """Draw accuracy over all rollouts, a panel for each kind of word. A band holds all seeds of an arm."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(15, 3.6), sharey=True, layout="constrained")
    for panel, kind in zip(panels, ("hard", "medium", "easy"), strict=True):
        for look, (name, runs) in zip(cycle(_LOOKS), _by_arm(results).items(), strict=False):
            grid = np.linspace(0, runs[0].budget, POINTS + 1)
            values = np.array([np.interp(grid, run.spent, run.curve(kind)) for run in runs])
            (line,) = panel.plot(grid / 1000, values.mean(0), look, label=arm(name).label)
            band = (values.min(0), values.max(0))
            panel.fill_between(grid / 1000, *band, color=line.get_color(), alpha=0.12, lw=0)
        panel.set(title=f"{kind} words", xlabel="all rollouts, in thousands", ylim=(-0.03, 1.03))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy on new questions")
    panels[0].legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


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
