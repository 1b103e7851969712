"""The trackers that OpenRLHF logs to, taken from its two loggers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prompt_coevo.adapters.common.trackers.texts import Tracker
from prompt_coevo.adapters.common.trackers.writers import TensorBoard, wandb_run

if TYPE_CHECKING:
    from openrlhf.utils.logging_utils import TensorboardLogger, WandbLogger

_AXIS = "train/global_step"
"""The step that OpenRLHF logs next to its metrics."""


def open_trackers(
    wandb_logger: WandbLogger | None, tensorboard_logger: TensorboardLogger | None
) -> Iterator[Tracker]:
    """Yield the trackers of a run; a logger that the run lacks is None."""
    if wandb_logger is not None:
        yield from wandb_run(wandb_logger.handle, _AXIS)
    if tensorboard_logger is not None:
        yield TensorBoard(tensorboard_logger.writer)
