"""The trackers that VeRL logs to, taken from its Tracking object."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prompt_coevo.adapters.common.trackers import mlflow, trackio, wandb
from prompt_coevo.adapters.common.trackers.tensorboard import TensorBoard
from prompt_coevo.adapters.common.trackers.texts import Tracker

if TYPE_CHECKING:
    from verl.utils.tracking import Tracking


def open_trackers(tracking: Tracking) -> Iterator[Tracker]:
    """Yield the trackers of `trainer.logger` that take texts; VeRL has imported and opened them."""
    loggers = getattr(tracking, "logger", {})
    if "tensorboard" in loggers:
        yield TensorBoard(loggers["tensorboard"].writer)
    if "wandb" in loggers:
        yield from wandb.open_run(loggers["wandb"], None)
    if "trackio" in loggers:
        yield from trackio.open_run(loggers["trackio"].trackio, None)
    if "mlflow" in loggers:
        yield from mlflow.open_run(sys.modules["mlflow"])  # VeRL keeps no reference to it
