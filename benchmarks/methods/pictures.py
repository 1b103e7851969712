"""Draw the pictures of the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import language_page
import plots
import tabular
import transformer
from store import Run
from tables import of_arm

TEACHERS: Final = ("exact-teacher", "stream", "poor-teacher", "random-teacher", "filler-teacher")


def draw(runs_of: Mapping[str, Sequence[Run]], folder: Path) -> None:
    """Draw all pictures of the pages from the runs of each tier."""
    folder.mkdir(exist_ok=True)
    tabular_runs, runs = runs_of["tabular"], runs_of["transformer"]
    language_page.draw(runs_of["language_model"], folder)
    names = transformer.labels()
    panels = {
        f"draw {draw}": {
            names[arm]: [run for run in of_arm(runs, arm) if run["draw"] == draw]
            for arm in transformer.HEADLINE
        }
        for draw in transformer.DRAWS
    }
    plots.curves(panels, folder / "headline.svg")
    together = {names[arm]: of_arm(runs, arm) for arm in transformer.HEADLINE}
    plots.curves({"": together}, folder / "effect.svg", panel_size=(7.6, 3.4))
    few = [run for run in runs if run["draw"] == 0 and run["seed"] < 3]
    plots.curves(
        {
            "teachers": {names[arm]: of_arm(few, arm) for arm in TEACHERS},
            "no search": {
                names[arm]: of_arm(few, arm)
                for arm in ("grpo", "random-hints", "gold-hints", "sdft", "sdpo", "stream")
            },
        },
        folder / "controls.svg",
    )
    labels = tabular.labels()
    plots.curves(
        {
            f"world {world}": {
                labels[arm]: of_arm(tabular_runs, arm, world)
                for arm in (
                    *("grpo", "random hints", "stream, random teacher"),
                    *("stream, one template", "p2o", "stream"),
                )
            }
            for world in tabular.WORLDS_USED
        },
        folder / "tabular.svg",
    )
    plots.curves(
        {
            f"world {world}": {
                labels[arm]: of_arm(tabular_runs, arm, world)
                for arm in ("static", "inspo", "inspo, before", "inspo, after", "inspo, history")
            }
            for world in tabular.WORLDS_USED
        },
        folder / "tabular-inspo.svg",
        "all",
    )
