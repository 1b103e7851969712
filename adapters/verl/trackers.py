"""The trackers that VeRL logs to, taken from its Tracking object."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prompt_coevo.adapters.common.trackers.texts import Tracker
from prompt_coevo.adapters.common.trackers.writers import (
    TensorBoard,
    mlflow_run,
    trackio_run,
    wandb_run,
)

if TYPE_CHECKING:
    from verl.utils.tracking import Tracking


def open_trackers(tracking: Tracking) -> Iterator[Tracker]:
    """Yield the trackers of `trainer.logger` that take texts; VeRL has imported and opened them."""
    loggers = getattr(tracking, "logger", {})
    if "tensorboard" in loggers:
        yield TensorBoard(loggers["tensorboard"].writer)
    if "wandb" in loggers:
        yield from wandb_run(loggers["wandb"], None)
    if "trackio" in loggers:
        yield from trackio_run(loggers["trackio"].trackio, None)
    if "mlflow" in loggers:
        yield from mlflow_run(sys.modules["mlflow"])  # VeRL keeps no reference to it
