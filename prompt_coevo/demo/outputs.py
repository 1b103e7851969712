"""The demo's output: the table, the numbers, the picture and the runs' reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from prompt_coevo.demo.results import ArmResult
from prompt_coevo.demo.show import (
    FACTS,
    Exhibit,
    as_json,
    draw_curves,
    print_answers,
    print_cracked,
    print_instructions,
    print_table,
)
from prompt_coevo.engine.state import write_json
from prompt_coevo.report.page import page

WIDTH = 140
"""Columns of a text without a right edge to wrap at."""


def show(results: Sequence[ArmResult], console: Console, exhibit: Exhibit = FACTS) -> None:
    """Print the table, two evolved templates, answers before and after, and the best instructions."""
    print_table(results, console, exhibit)
    print_cracked(results, console)
    print_answers(results, console)
    print_instructions(results, console, exhibit)


def leave(
    results: Sequence[ArmResult], folder: Path, command: str, exhibit: Exhibit = FACTS
) -> list[Path]:
    """Write `table.txt`, `results.json`, `demo.png`, and a `report.html` for each run that has a journal.

    Returns their paths.
    """
    table, numbers, picture = (folder / name for name in ("table.txt", "results.json", "demo.png"))
    with table.open("w", encoding="utf-8") as file:
        show(results, Console(file=file, width=WIDTH), exhibit)
    write_json(numbers, as_json(results, command, exhibit))
    draw_curves(results, picture, exhibit)
    return [table, numbers, picture, *_reports(results, folder)]


def _reports(results: Sequence[ArmResult], folder: Path) -> Iterator[Path]:
    for result in results:
        out = folder / f"{result.arm}-seed{result.seed}"
        if (out / "coevo" / "events.jsonl").exists():
            path = out / "report.html"
            path.write_text(page(out / "coevo"), "utf-8")
            yield path
