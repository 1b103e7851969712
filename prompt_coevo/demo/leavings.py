"""What a demo leaves in its folder: the table, the numbers, the picture and the runs' reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from prompt_coevo.demo.results import ArmResult
from prompt_coevo.demo.show import (
    as_json,
    draw_curves,
    print_cracked,
    print_instructions,
    print_table,
)
from prompt_coevo.engine.state import write_json
from prompt_coevo.report.page import page

WIDTH = 140
"""Of a text that has no right edge to wrap at."""


def show(results: Sequence[ArmResult], console: Console) -> None:
    """The table, two evolved templates and the best instructions."""
    print_table(results, console)
    print_cracked(results, console)
    print_instructions(results, console)


def leave(results: Sequence[ArmResult], folder: Path, command: str) -> list[Path]:
    """Write `table.txt`, `results.json`, `demo.png` and a `report.html` for each run that has a journal.

    Returns where they are.
    """
    table, numbers, picture = (folder / name for name in ("table.txt", "results.json", "demo.png"))
    with table.open("w", encoding="utf-8") as file:
        show(results, Console(file=file, width=WIDTH))
    write_json(numbers, as_json(results, command))
    draw_curves(results, picture)
    return [table, numbers, picture, *_reports(folder)]


def _reports(folder: Path) -> Iterator[Path]:
    for journal in sorted(folder.glob("*/coevo/events.jsonl")):
        path = journal.parent.parent / "report.html"
        path.write_text(page(journal.parent), "utf-8")
        yield path
