"""MLflow, through the module that the trainer has imported and the run that it has opened."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from prompt_coevo.adapters.common.trackers.tables import IN_USE, LINEAGE, Tables


class MLflow:
    """Writes artifacts of the active run: one page per call, and the newest tables as JSON."""

    name = "MLflow"

    def __init__(self, mlflow: ModuleType) -> None:
        self._mlflow = mlflow

    def write(self, tables: Tables, step: int) -> None:
        page = (
            f"# In use at step {step}\n\n{tables.in_use_markdown()}\n"
            f"# Lineage\n\n{tables.lineage_markdown()}"
        )
        self._mlflow.log_text(page, f"coevo/step-{step:06d}.md")
        newest = {
            "step": step,
            "in_use": [dict(zip(IN_USE, row, strict=True)) for row in tables.in_use],
            "lineage": [dict(zip(LINEAGE, row, strict=True)) for row in tables.lineage],
        }
        self._mlflow.log_dict(newest, "coevo/newest.json")


def open_run(mlflow: ModuleType) -> Iterator[MLflow]:
    """Yield the tracker if the trainer has a run; without one, MLflow would open its own."""
    if mlflow.active_run() is not None:
        yield MLflow(mlflow)
