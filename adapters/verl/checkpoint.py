"""Where the trainer's checkpoints are, and what the engine has not been told of in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prompt_coevo.doors.due import Due

if TYPE_CHECKING:
    from omegaconf import DictConfig


def checkpoint_folder(config: DictConfig, step: int) -> Path:
    """The checkpoint of a step, to write or to resume from."""
    trainer = config.trainer
    resumed = trainer.resume_from_path if trainer.resume_mode == "resume_path" else None
    if resumed and Path(resumed).name == f"global_step_{step}":
        return Path(resumed)
    return Path(trainer.default_local_dir) / f"global_step_{step}"


def due_after(step: int, steps_per_epoch: int) -> Due:
    """What is owed when a step is over, and so in its checkpoint, which VeRL writes before."""
    return Due(step_due=True, epoch_due=step % steps_per_epoch == 0)
