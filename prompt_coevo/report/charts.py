"""Line charts as inline SVG, drawn by matplotlib in the colours of the page.

Series differ in colour (Okabe and Ito's, for all kinds of colour vision), marker and dashes. matplotlib
writes a placeholder colour for each of them, which is then replaced by a CSS variable, so that the page's
light and dark themes colour the chart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from typing import Final

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

_POINTS: Final = 40
"""The most points of a series; with more, neighbours are averaged: rewards of single updates are noise."""
_MARKED: Final = 12
_MARKERS: Final = "osD^vPX*"
_DASHES: Final = (
    *("-", "--", "-.", ":"),
    *((0, dashes) for dashes in ((5, 1, 1, 1, 1, 1), (7, 2), (1, 1), (3, 3))),
)
SERIES: Final = len(_MARKERS)
"""The most series that can be distinguished in one chart."""
_COLOURS: Final = tuple(f"#0101{number:02x}" for number in range(1, SERIES + 1))
_INK, _GRID = "#010201", "#010202"
_VARIABLES: Final = {
    **{colour: f"var(--series-{number})" for number, colour in enumerate(_COLOURS, 1)},
    _INK: "var(--ink)",
    _GRID: "var(--line)",
}
_LOOK: Final = {
    **dict.fromkeys(["axes.edgecolor", "grid.color", "xtick.color", "ytick.color"], _GRID),
    **dict.fromkeys(["axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"], _INK),
    **dict.fromkeys(["figure.facecolor", "axes.facecolor"], "none"),
    **dict.fromkeys(["axes.spines.top", "axes.spines.right", "legend.frameon"], False),
    "axes.grid": True,
    "axes.xmargin": 0.02,
    "axes.ymargin": 0.08,
    "font.size": 9.5,
    "grid.linewidth": 0.6,
    "legend.labelcolor": _INK,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
}
_PROLOGUE: Final = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_METADATA: Final = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_GROUP_ID: Final = re.compile(r'<g id="[a-z0-9_.]+">')
_SIZE: Final = re.compile(r' (?:width|height)="[^"]*"')
"""The size of the `<svg>`, whose attributes come first."""
_LABEL: Final = re.compile(r"[^\w .,()'-]+")


@dataclass(frozen=True)
class Series:
    """A line: points (x, y) sorted by x. `look`, below `SERIES`, selects colour, marker and dashes."""

    label: str
    points: Sequence[tuple[float, float]]
    look: int = 0


def chart(name: str, title: str, x_label: str, y_label: str, series: Sequence[Series]) -> Markup:
    """Draw an `<svg>` with a title for screen readers. `name` is a word, unique for every chart."""
    with rc_context({**_LOOK, "svg.hashsalt": name}):
        figure = Figure(figsize=(5.4, 2.9), layout="constrained")
        most = max((_together(one.points) for one in series), default=1)
        means = f" (means of up to {most})" * (most > 1)
        axes = figure.add_subplot(xlabel=x_label + means, ylabel=y_label)
        for one in series:
            points = thinned(one.points)
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                label=_LABEL.sub("", one.label),
                color=_COLOURS[one.look],
                marker=_MARKERS[one.look],
                linestyle=_DASHES[one.look],
                markevery=max(1, len(points) // _MARKED),
            )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside upper left", ncols=min(4, len(series)))
        written = StringIO()
        FigureCanvasSVG(figure).print_svg(written, metadata={"Date": None, "Creator": None})
    return _inlined(written.getvalue(), name, title)


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Average neighbours, so that at most `_POINTS` points remain, each of about as many."""
    count = min(len(points), _POINTS)
    ends = [len(points) * place // count for place in range(1, count + 1)]
    parts = [points[start:end] for start, end in pairwise([0, *ends])]
    return [
        (sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts
    ]


def _together(points: Sequence[object]) -> int:
    """Return how many neighbours one drawn point stands for."""
    return -(-len(points) // _POINTS)


def _inlined(svg: str, name: str, title: str) -> Markup:
    svg = _METADATA.sub("", _PROLOGUE.sub("", svg, count=1))
    svg = _GROUP_ID.sub("<g>", svg)
    svg = _SIZE.sub("", svg, count=2)
    svg = re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found[0]], svg)
    named = f'<svg role="img" aria-labelledby="chart-{name}"'
    svg = svg.replace("<svg", named, 1)
    end = svg.index(">") + 1
    label = f'<title id="chart-{name}">{escape(title)}</title>'
    # Safe markup: all texts in it are ours, or escaped by matplotlib.
    return Markup(svg[:end] + label + svg[end:])
