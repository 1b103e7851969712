"""Types for the parts of a TRL trainer that this adapter uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import torch

from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.placement import Prompt

if TYPE_CHECKING:
    from accelerate import Accelerator
    from datasets import Dataset
    from transformers import (
        CallbackHandler,
        GenerationConfig,
        PreTrainedModel,
        PreTrainedTokenizerBase,
        TrainerCallback,
        TrainerState,
    )
    from trl import GRPOConfig, RLOOConfig
    from trl.generation.vllm_generation import VLLMGeneration

VERSIONS: Final = "use TRL 1.0 or newer (below 2), without 1.15.0"

Ids: TypeAlias = list[list[int]]
"""Token ids, row after row."""
Batch: TypeAlias = dict[str, torch.Tensor]
"""The batch of a generation round: fields of B rows."""
Generated: TypeAlias = tuple[Ids, *tuple[object, ...]]
"""What `_generate` returns: prompt ids, and more that differs from version to version."""
Logps: TypeAlias = tuple[torch.Tensor, *tuple[object, ...]]
"""Log-probs of the last tokens, (B, T), and more that differs from version to version."""


class Trainer(Protocol):
    """The parts of a GRPOTrainer or RLOOTrainer that we use. TRL may change names with an underscore."""

    args: GRPOConfig | RLOOConfig
    model: PreTrainedModel
    processing_class: PreTrainedTokenizerBase
    accelerator: Accelerator
    train_dataset: Dataset
    num_generations: int
    num_iterations: int
    max_completion_length: int | None
    reward_funcs: Sequence[object]
    reward_weights: torch.Tensor
    generation_config: GenerationConfig
    use_vllm: bool
    is_deepspeed_enabled: bool
    is_fsdp_enabled: bool
    vllm_generation: VLLMGeneration
    callback_handler: CallbackHandler
    state: TrainerState
    reward_func_names: list[str]
    environments: Sequence[object] | None
    _metrics: dict[str, dict[str, list[float]]]

    def add_callback(self, callback: TrainerCallback) -> None: ...

    def remove_callback(self, callback: TrainerCallback) -> None: ...

    def _generate_and_score_completions(self, inputs: list[Row]) -> Batch: ...

    def _generate_single_turn(self, *args: object, **kwargs: object) -> Generated: ...

    def _tokenize_prompts(self, prompts: list[Prompt]) -> tuple[Ids, *tuple[object, ...]]: ...

    def _get_per_token_logps_and_entropies(
        self,
        model: PreTrainedModel,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
    ) -> Logps: ...

    def _log_completion_extra(self, column: str, values: Sequence[str | None]) -> None: ...


def has_own_rollouts(trainer: Trainer) -> bool:
    """Check for a user's `rollout_func`, which samples as it likes."""
    return getattr(trainer, "rollout_func", None) is not None
