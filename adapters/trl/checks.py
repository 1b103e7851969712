"""What cannot work, refused before training with one sentence."""

from __future__ import annotations

from typing import Any

import trl
from trl import GRPOTrainer, RLOOTrainer

from prompt_coevo.errors import HostError

STATE_FILE = "coevo_state.json"


def check_trainer(trainer: Any) -> None:
    """Raise HostError for a trainer, or a configuration of one, that the adapter cannot serve."""
    if not isinstance(trainer, (GRPOTrainer, RLOOTrainer)):
        name = type(trainer).__name__
        if "Async" in name:
            raise HostError(
                f"{name} samples in a separate process that prompt_coevo cannot reach; use "
                "GRPOTrainer"
            )
        raise HostError(
            f"prompt_coevo works with GRPOTrainer and RLOOTrainer of TRL, not with {name}"
        )
    if trl.__version__ == "1.15.0":
        raise HostError("TRL 1.15.0 cannot train without triton; install 1.14 or 1.16")
    if getattr(trainer, "_is_vlm", False) and _has_image_columns(trainer.train_dataset):
        raise HostError(
            "the training dataset has images; templates and instructions can be placed in text "
            "prompts only, "
            "so vision-language training is not supported"
        )
    if trainer.num_generations < 2:
        raise HostError("num_generations must be at least 2: a single rollout makes no group")


def _has_image_columns(dataset: Any) -> bool:
    return bool({"image", "images"} & set(getattr(dataset, "column_names", None) or ()))


def generation_cycle(trainer: Any) -> float:
    """How many weight updates one generation round serves; below 1 if an update has several rounds."""
    micro_steps = trainer.args.steps_per_generation * trainer.num_iterations
    return float(micro_steps / trainer.args.gradient_accumulation_steps)
