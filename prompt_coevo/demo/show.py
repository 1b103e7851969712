"""The demo's table, picture and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prompt_coevo.demo.arms import arm
from prompt_coevo.demo.results import ArmResult, paired, summary

_COLUMNS = {
    "all": "all",
    "hard": "hard",
    "unseen_pairs": "unseen\npairs",
    "longer": "longer",
    "hard_left": "hard\nleft",
    "train_rollouts": "training\nrollouts",
    "search_rollouts": "search\nrollouts",
    "seconds": "seconds",
}


def print_table(results: Sequence[ArmResult], console: Console) -> None:
    """Mean and standard deviation per arm."""
    seeds = len({result.seed for result in results})
    table = Table(
        title="Accuracy on held-out questions, greedy, without any template, under the best "
        f"instruction where there is one ({_counted(seeds, 'seed')})",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("", no_wrap=True)
    for title in _COLUMNS.values():
        table.add_column(title, justify="right")
    for name, values in summary(results).items():
        table.add_row(arm(name).label, *(_cell(column, values[column]) for column in _COLUMNS))
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
    """Learning curves and hard samples left, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
    titles = {
        "all": "accuracy, all held-out questions",
        "hard": "accuracy, hard held-out questions",
        "hard_left": "hard training questions left",
    }
    for panel, (metric, title) in zip(panels, titles.items(), strict=True):
        for name in dict.fromkeys(result.arm for result in results):
            runs = [result for result in results if result.arm == name]
            values = np.array([[getattr(point, metric) for point in run.curve] for run in runs])
            epochs = [point.epoch for point in runs[0].curve]
            (line,) = panel.plot(epochs, values.mean(axis=0), marker="o", label=arm(name).label)
            panel.fill_between(
                epochs, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.15
            )
        panel.set(title=title, xlabel="epoch", ylim=(0, 1.02 if metric != "hard_left" else None))
        panel.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def as_json(results: Sequence[ArmResult], command: str) -> dict[str, Any]:
    """The table's numbers and every single run."""
    return {
        "command": command,
        "summary": summary(results),
        "paired_with_first": paired(results),
        "runs": [result.to_json() for result in results],
    }


def _cell(column: str, value: dict[str, float]) -> str:
    digits = 2 if column in ("all", "hard", "unseen_pairs", "longer") else 0
    spread = f" ± {value['std']:.{digits}f}" if value["std"] else ""
    return f"{value['mean']:.{digits}f}{spread}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("s" if number != 1 else "")
