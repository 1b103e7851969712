"""Draw accuracy over all rollouts: a panel for each title, a line for each arm.

The colours are distinguishable to the colour-blind (Okabe and Ito). No line depends on its colour: each has
its own marker and dash pattern, its markers are offset from its neighbours', what is drawn first is the
widest, so that a line under another one is visible at both its edges, and its name is at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from store import Run

_COLOURS: Final = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_MARKERS: Final = "osD^vXP"
_DASHES: Final = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 2)), (0, (1, 1)))
_GRID: Final = 25
_FONT: Final = 9
_LOWEST, _HIGHEST = -0.03, 1.03


@dataclass(frozen=True)
class Line:
    """All runs of an arm: for each its rollouts and accuracies, point by point, up to `end` rollouts."""

    label: str
    runs: Sequence[tuple[Sequence[float], Sequence[float]]]
    end: float


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


def draw(
    panels: Mapping[str, Sequence[Line]],
    path: Path,
    y_label: str,
    *,
    panel_size: tuple[float, float] = (5.2, 3.6),
) -> None:
    """Draw the panels side by side into a file; its ending gives the format, the size is in inches.

    A line is the mean of its runs, its band covers all of them. An arm looks the same in every panel.
    The same runs give the same bytes.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    width, height = panel_size
    with pyplot.rc_context({"svg.hashsalt": "prompt_coevo", "font.size": _FONT}):
        figure, axes = pyplot.subplots(
            *(1, len(panels)),
            figsize=(width * len(panels), height),
            layout="constrained",
            squeeze=False,
        )
        looks = _looks(panels)
        for panel, (title, lines) in zip(axes[0], panels.items(), strict=True):
            _panel(panel, [line for line in lines if line.runs], looks)
            panel.set(title=title, xlabel="all rollouts, in thousands", ylabel=y_label)
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)


def _looks(panels: Mapping[str, Sequence[Line]]) -> dict[str, int]:
    """Number each arm's look, the same in all panels, with the lowest number unused in them."""
    looks: dict[str, int] = {}
    for lines in panels.values():
        taken = {looks[line.label] for line in lines if line.label in looks}
        for line in lines:
            if line.label not in looks:
                free = (number for number in range(len(lines)) if number not in taken)
                looks[line.label] = next(free)
                taken.add(looks[line.label])
    return looks


def _panel(panel: Any, lines: Sequence[Line], looks: Mapping[str, int]) -> None:
    ends = []
    for line in lines:
        number = looks[line.label]
        # A line has no point where one of its runs has no value yet.
        grid = np.linspace(max(spent[0] for spent, _ in line.runs), line.end, _GRID)
        values = np.array([np.interp(grid, *run) for run in line.runs])
        colour = _COLOURS[number % len(_COLOURS)]
        panel.fill_between(
            grid / 1000, values.min(0), values.max(0), color=colour, alpha=0.12, lw=0
        )
        panel.plot(
            grid / 1000,
            values.mean(0),
            color=colour,
            linestyle=_DASHES[number % len(_DASHES)],
            linewidth=max(1.2, 3.2 - 0.35 * number),
            # Arms of one colour have different markers.
            marker=_MARKERS[(number + number // len(_COLOURS)) % len(_MARKERS)],
            markevery=(number % 4, 4),
            markersize=5.5,
            markeredgecolor="white",
            markeredgewidth=0.6,
            clip_on=False,  # half a marker at the edge would be another one
            zorder=3,
        )
        ends.append((float(values[:, -1].mean()), line.end / 1000, line.label, colour))
    panel.set_ylim(_LOWEST, _HIGHEST)
    panel.set_xlim(0, max((end for _, end, *_ in ends), default=1))
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    _label(panel, ends)


def _label(panel: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write names at the ends of lines, right of the panel, moved apart."""
    height = panel.figure.get_figheight() * 72 * 0.75
    apart = 1.35 * _FONT / height * (_HIGHEST - _LOWEST)
    lowest, room = _LOWEST, _HIGHEST - apart * (len(ends) - 1)
    for number, (y, end, label, colour) in enumerate(sorted(ends)):
        place = max(min(y, room + apart * number), lowest)
        lowest = place + apart
        panel.annotate(
            label,
            (end, y),
            (end * 1.05, place),
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "lw": 1.0,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 4,
            },
        )
