"""Trackers, through the modules that the trainer has imported and the runs that it has opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from prompt_coevo.adapters.common.trackers.tables import IN_USE, LINEAGE, Tables, escaped


@dataclass
class Wandb:
    """Logs tables. `axis` is the trainer's metric for its steps; without one it logs with `step=`."""

    wandb: ModuleType
    axis: str | None
    name = "wandb"

    def write(self, tables: Tables, step: int) -> None:
        table = self.wandb.Table
        values = {
            "coevo/in_use": table(columns=list(IN_USE), data=tables.in_use),
            "coevo/lineage": table(columns=list(LINEAGE), data=tables.lineage),
        }
        _log(self.wandb.run.log, values, step, self.axis)


@dataclass
class Trackio:
    """Logs a page and a table; `axis` as with wandb. Trackio reads texts in tables as Markdown, so they
    are escaped."""

    trackio: ModuleType
    axis: str | None
    name = "trackio"

    def write(self, tables: Tables, step: int) -> None:
        rows = [
            [escaped(one) if isinstance(one, str) else one for one in row] for row in tables.lineage
        ]
        values = {
            "coevo/in_use": self.trackio.Markdown(tables.in_use_markdown()),
            "coevo/lineage": self.trackio.Table(columns=list(LINEAGE), data=rows),
        }
        _log(self.trackio.log, values, step, self.axis)


@dataclass
class MLflow:
    """Writes artifacts of the active run: one page per call, and the newest tables as JSON."""

    mlflow: ModuleType
    name = "MLflow"

    def write(self, tables: Tables, step: int) -> None:
        page = (
            f"# In use at step {step}\n\n{tables.in_use_markdown()}\n"
            f"# Lineage\n\n{tables.lineage_markdown()}"
        )
        self.mlflow.log_text(page, f"coevo/step-{step:06d}.md")
        newest = {
            "step": step,
            "in_use": [dict(zip(IN_USE, row, strict=True)) for row in tables.in_use],
            "lineage": [dict(zip(LINEAGE, row, strict=True)) for row in tables.lineage],
        }
        self.mlflow.log_dict(newest, "coevo/newest.json")


class SummaryWriter(Protocol):
    """A SummaryWriter of torch or of tensorboardX."""

    def add_text(self, tag: str, text_string: str, global_step: int, /) -> None: ...

    def flush(self) -> None: ...


@dataclass
class TensorBoard:
    """Logs Markdown."""

    writer: SummaryWriter
    name = "TensorBoard"

    def write(self, tables: Tables, step: int) -> None:
        self.writer.add_text("coevo/in_use", tables.in_use_markdown(), step)
        self.writer.add_text("coevo/lineage", tables.lineage_markdown(), step)
        self.writer.flush()


def wandb_run(wandb: ModuleType, axis: str | None) -> Iterator[Wandb]:
    """Yield the tracker if the trainer has a run."""
    if getattr(wandb, "run", None) is not None:
        yield Wandb(wandb, axis)


def trackio_run(trackio: ModuleType, axis: str | None) -> Iterator[Trackio]:
    """Yield the tracker if the trainer has a run."""
    if trackio.context_vars.current_run.get() is not None:
        yield Trackio(trackio, axis)


def mlflow_run(mlflow: ModuleType) -> Iterator[MLflow]:
    """Yield the tracker if the trainer has a run; without one, MLflow would open its own."""
    if mlflow.active_run() is not None:
        yield MLflow(mlflow)


def _log(
    log: Callable[..., object], values: Mapping[str, object], step: int, axis: str | None
) -> None:
    if axis is None:
        log(values, step=step)
    else:
        log({**values, axis: step})
