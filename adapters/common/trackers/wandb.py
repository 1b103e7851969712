"""Weights & Biases, through the module that the trainer has imported and the run that it has opened."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from prompt_coevo.adapters.common.trackers.tables import IN_USE, LINEAGE, Tables


class Wandb:
    """Logs tables. `axis` is the trainer's metric for its steps; without one it logs with `step=`."""

    name = "wandb"

    def __init__(self, wandb: ModuleType, axis: str | None) -> None:
        self._wandb = wandb
        self._axis = axis

    def write(self, tables: Tables, step: int) -> None:
        table = self._wandb.Table
        values = {
            "coevo/in_use": table(columns=list(IN_USE), data=tables.in_use),
            "coevo/lineage": table(columns=list(LINEAGE), data=tables.lineage),
        }
        if self._axis is None:
            self._wandb.run.log(values, step=step)
        else:
            self._wandb.run.log({**values, self._axis: step})


def open_run(wandb: ModuleType, axis: str | None) -> Iterator[Wandb]:
    """Yield the tracker if the trainer has a run."""
    if getattr(wandb, "run", None) is not None:
        yield Wandb(wandb, axis)
