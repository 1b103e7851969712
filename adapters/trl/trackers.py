"""Find the trackers that a trainer reports to among its callbacks."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from transformers.integrations import (
    MLflowCallback,
    TensorBoardCallback,
    TrackioCallback,
    WandbCallback,
)

from prompt_coevo.adapters.common.trackers.texts import Tracker
from prompt_coevo.adapters.common.trackers.writers import (
    TensorBoard,
    mlflow_run,
    trackio_run,
    wandb_run,
)
from prompt_coevo.adapters.trl.host import Trainer

_AXIS = "train/global_step"
"""The step that transformers' own callbacks log with their metrics."""


def open_trackers(trainer: Trainer) -> Iterator[Tracker]:
    """Yield the trackers with an open run. Import nothing that the trainer has not imported."""
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.tb_writer is not None:
            yield TensorBoard(callback.tb_writer)
        elif isinstance(callback, WandbCallback) and "wandb" in sys.modules:
            yield from wandb_run(sys.modules["wandb"], _AXIS)
        elif isinstance(callback, TrackioCallback) and "trackio" in sys.modules:
            yield from trackio_run(sys.modules["trackio"], _AXIS)
        elif isinstance(callback, MLflowCallback) and "mlflow" in sys.modules:
            yield from mlflow_run(sys.modules["mlflow"])
