"""Accuracy over all rollouts: a panel for each world, a line for each arm, a band that holds all its runs.

The colours are told apart by the colour-blind (Okabe and Ito), every line has a marker of its own, set at
other places than its neighbours', and a label at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from store import Run

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
_MARKERS: Final = "osD^vXP"
_DASHES: Final = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 2)), (0, (1, 1)))
_GRID: Final = 25
_SEPARATION: Final = 0.055


def curves(
    panels: Mapping[str, Mapping[str, Sequence[Run]]], path: Path, kind: str = "hard"
) -> None:
    """Draw `panels`, title to label to runs, side by side. A band holds all runs of its line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.hashsalt": "prompt_coevo", "font.size": 9})
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(5.2 * len(panels), 3.9), layout="constrained", squeeze=False
    )
    for panel, (title, lines) in zip(axes[0], panels.items(), strict=True):
        _draw(panel, title, lines, kind)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _draw(panel: Any, title: str, lines: Mapping[str, Sequence[Run]], kind: str) -> None:
    ends = []
    for number, (label, runs) in enumerate(lines.items()):
        if not runs:
            continue
        grid = np.linspace(0, runs[0]["budget"], _GRID)
        values = np.array([np.interp(grid, run["spent"], run["curve"][kind]) for run in runs])
        colour = _COLOURS[number % len(_COLOURS)]
        panel.fill_between(grid, values.min(0), values.max(0), color=colour, alpha=0.12, lw=0)
        panel.plot(
            grid,
            values.mean(0),
            color=colour,
            linestyle=_DASHES[number % len(_DASHES)],
            linewidth=3.2 - 0.35 * number,  # a line on another one leaves its edges to be seen
            marker=_MARKERS[number % len(_MARKERS)],
            markevery=(number % 4, 4),
            markersize=5,
        )
        ends.append((float(values[:, -1].mean()), grid[-1], label, colour))
    _label(panel, ends)
    panel.set(title=title, xlabel="all rollouts", ylabel=f"accuracy, {kind}", ylim=(-0.03, 1.05))
    panel.grid(alpha=0.3)
    end = max((end for _, end, *_ in ends), default=1)
    panel.set_xlim(0, end * 1.55)  # room for the labels
    panel.set_xticks(np.linspace(0, end, 5))
    panel.tick_params(axis="x", labelsize=7.5)


def _label(panel: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Labels at the ends of lines, moved apart."""
    lowest, room = -0.02, 1.0 - _SEPARATION * (len(ends) - 1)
    for number, (height, end, label, colour) in enumerate(sorted(ends)):
        place = max(min(height, room + _SEPARATION * number), lowest)
        lowest = place + _SEPARATION
        panel.annotate(
            label,
            (end, height),
            (end * 1.02, place),
            color=colour,
            va="center",
            fontsize=7.5,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5},
        )
