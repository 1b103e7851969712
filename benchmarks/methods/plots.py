"""The curves of runs: a panel for each world, a line for each arm, a band that holds all its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from store import Run

from prompt_coevo.demo.curves import Line, draw


def curves(
    panels: Mapping[str, Mapping[str, Sequence[Run]]],
    path: Path,
    kind: str = "hard",
    panel_size: tuple[float, float] = (5.2, 3.6),
) -> None:
    """Draw `panels`, title to label to runs, side by side."""
    lines = {
        title: [
            Line(
                label,
                [(run["spent"], run["curve"][kind]) for run in runs],
                runs[0]["budget"] if runs else 0,
            )
            for label, runs in arms.items()
        ]
        for title, arms in panels.items()
    }
    draw(lines, path, f"accuracy, {kind} words", panel_size=panel_size)
