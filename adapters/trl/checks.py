"""What cannot work, refused before training with one sentence, and how long a prompt may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trl
from trl import GRPOTrainer, RLOOTrainer

from prompt_coevo.adapters.trl.host import Trainer
from prompt_coevo.doors.length_gate import PromptLimit, tokens_needed
from prompt_coevo.doors.patching import is_wrapped
from prompt_coevo.errors import HostError
from prompt_coevo.placement import Prompt

if TYPE_CHECKING:
    from datasets import Dataset


def check_trainer(trainer: Trainer) -> None:
    """Raise HostError for a trainer, or a configuration of one, that the adapter cannot serve."""
    if not isinstance(trainer, (GRPOTrainer, RLOOTrainer)):
        name = type(trainer).__name__
        if "Async" in name:
            raise HostError(
                f"{name} samples in a separate process that prompt_coevo cannot reach; use GRPOTrainer"
            )
        raise HostError(
            f"prompt_coevo works with GRPOTrainer and RLOOTrainer of TRL, not with {name}"
        )
    if is_wrapped(trainer, "_save_optimizer_and_scheduler"):
        raise HostError(
            f"this {type(trainer).__name__} already has a CoevoCallback; make one per trainer"
        )
    if trl.__version__ == "1.15.0":
        raise HostError("TRL 1.15.0 cannot train without triton; install 1.14 or 1.16")
    if getattr(trainer, "_is_vlm", False) and _has_image_columns(trainer.train_dataset):
        raise HostError(
            "the training dataset has images; templates and instructions can be placed in text "
            "prompts only, so vision-language training is not supported"
        )
    if trainer.num_generations < 2:
        raise HostError("num_generations must be at least 2: a single rollout makes no group")


def _has_image_columns(dataset: Dataset) -> bool:
    return bool({"image", "images"} & set(getattr(dataset, "column_names", None) or ()))


def generation_cycle(trainer: Trainer) -> float:
    """How many weight updates one generation round serves; below 1 if an update has several rounds."""
    micro_steps = trainer.args.steps_per_generation * trainer.num_iterations
    return float(micro_steps / trainer.args.gradient_accumulation_steps)


def prompt_limit(trainer: Trainer) -> PromptLimit:
    """The placed prompt and a completion must fit into the model.

    Nothing in TRL truncates a prompt; an overlong one fails in vLLM or runs out of positions. The
    model's limit is looked for at the top of its configuration; one in `text_config` is not found.
    """

    def needed(prompts: Sequence[Prompt]) -> int:
        completion = trainer.max_completion_length or 0
        return tokens_needed(trainer.processing_class, prompts) + completion

    def room() -> int | None:
        limits = [getattr(trainer.model.config, "max_position_embeddings", None)]
        if trainer.use_vllm:
            limits.append(getattr(trainer.args, "vllm_max_model_length", None))
        return min((limit for limit in limits if limit is not None), default=None)

    return PromptLimit(needed, room, "the model has room for")
