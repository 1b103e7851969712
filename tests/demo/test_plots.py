"""Check the curves on the results page, from invented runs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "methods"


@pytest.fixture
def plots(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("plots")


def test_the_same_runs_give_the_same_picture_and_lines_are_told_apart_without_colour(
    plots: Any,
    tmp_path: Path,
) -> None:
    names = ("GRPO", "P2O", "another")
    lines = [plots.Line(name, [([0, 400], [0.0, 0.1 * n])], 400) for n, name in enumerate(names)]
    for name in ("one.svg", "two.svg"):
        plots.draw({"hard words": lines, "easy words": lines[1:]}, tmp_path / name, "accuracy")
    one = (tmp_path / "one.svg").read_bytes()
    assert one == (tmp_path / "two.svg").read_bytes()
    assert b"<!-- accuracy -->" in one  # what the axis shows
    # Dashes are written down for all lines but the solid one.
    assert one.count(b"stroke-dasharray") >= 4
    for name in names:
        assert f"<!-- {name} -->".encode() in one


def test_a_line_without_runs_is_left_out(plots: Any, tmp_path: Path) -> None:
    lines = [plots.Line("nobody", [], 0), plots.Line("P2O", [([0, 9], [0, 1])], 9)]
    plots.draw({"": lines}, tmp_path / "x.svg", "y")
    assert b"<!-- nobody -->" not in (tmp_path / "x.svg").read_bytes()


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_ending_says_the_format(plots: Any, tmp_path: Path, ending: str) -> None:
    plots.draw({"": [plots.Line("P2O", [([0, 9], [0, 1])], 9)]}, tmp_path / f"x.{ending}", "y")
    start = (tmp_path / f"x.{ending}").read_bytes()[:5]
    assert start == {"png": b"\x89PNG\r", "svg": b"<?xml"}[ending]


def test_a_line_begins_where_all_of_its_runs_have_values(plots: Any) -> None:
    from matplotlib import pyplot

    figure, panel = pyplot.subplots()
    runs = [([0, 400], [0.1, 0.2]), ([200, 400], [0.5, 0.6])]
    plots._panel(panel, [plots.Line("late", runs, 400)], {"late": 0})
    assert next(iter(panel.lines[0].get_xdata())) == 0.2
    pyplot.close(figure)
