"""Trackio, through the module that the trainer has imported and the run that it has opened."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from prompt_coevo.adapters.common.trackers.tables import LINEAGE, Tables, escaped


class Trackio:
    """Logs a page and a table; `axis` as with wandb. Trackio reads texts in tables as Markdown, so they
    are escaped."""

    name = "trackio"

    def __init__(self, trackio: ModuleType, axis: str | None) -> None:
        self._trackio = trackio
        self._axis = axis

    def write(self, tables: Tables, step: int) -> None:
        rows = [
            [escaped(one) if isinstance(one, str) else one for one in row] for row in tables.lineage
        ]
        values = {
            "coevo/in_use": self._trackio.Markdown(tables.in_use_markdown()),
            "coevo/lineage": self._trackio.Table(columns=list(LINEAGE), data=rows),
        }
        if self._axis is None:
            self._trackio.log(values, step=step)
        else:
            self._trackio.log({**values, self._axis: step})


def open_run(trackio: ModuleType, axis: str | None) -> Iterator[Trackio]:
    """Yield the tracker if the trainer has a run."""
    if trackio.context_vars.current_run.get() is not None:
        yield Trackio(trackio, axis)
