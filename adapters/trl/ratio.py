"""Which old log-probs distilled rows get: the setting `distill_ratio`.

The trainer has already computed everything from the question's own prompt `x`, because that is what
its generation returned (`generation.py`). Here the rest is put right: fields that the sampler filled
under `x~`, and what the modes `band` and `templated` ask for.
"""

from __future__ import annotations

from typing import Any

import torch

from prompt_coevo.doors.distill_tensors import band_mask, left_pad
from prompt_coevo.settings import Settings

LOSS_MASK = "coevo_loss_mask"
"""Field of a generation batch: tokens that stay in RLOO's loss (GRPO has a field of its own)."""


class DistillRatio:
    """Applies `distill_ratio` to the output of one generation round."""

    def __init__(self, trainer: Any, settings: Settings) -> None:
        self._trainer = trainer
        self._mode = settings.distill_ratio
        self._band = settings.distill_band

    def apply(
        self, output: dict[str, Any], rollout_prompts: list[list[int]], distilled: list[bool]
    ) -> None:
        """Change `output` in place. Called on all ranks of a round with distilled rows on any rank.

        `rollout_prompts` are the prompt ids that the sampler saw, `distilled` says which rows were
        sampled under a template; both belong to this rank's rows.
        """
        rows = torch.tensor(distilled, device=output["completion_ids"].device)
        if self._mode == "templated":
            self._use_rollout_logps(output, self._logps_under(rollout_prompts, output), rows)
        elif self._mode == "band":
            self._mask_band(output, self._logps_under(rollout_prompts, output), rows)
        self._drop_sampler_correction(output, rows)

    def _drop_sampler_correction(self, output: dict[str, Any], rows: torch.Tensor) -> None:
        """The sampler's log-probs are under x~: as a correction they would weigh these tokens ~0."""
        if "importance_sampling_ratio" in output:
            output["importance_sampling_ratio"][rows] = 1.0
        if "sampling_per_token_logps" in output and self._mode != "templated":
            old = output.get("old_per_token_logps")
            if old is None:
                old = self._logps_on_question(output)
            output["sampling_per_token_logps"][rows] = old[rows]

    def _use_rollout_logps(
        self, output: dict[str, Any], logps: torch.Tensor, rows: torch.Tensor
    ) -> None:
        if "old_logps" in output:  # RLOO keeps sums
            sums = (logps * output["completion_mask"]).sum(1)
            output["old_logps"] = torch.where(rows, sums, output["old_logps"])
        elif "old_per_token_logps" in output:
            old = output["old_per_token_logps"]
            output["old_per_token_logps"] = torch.where(rows[:, None], logps, old)
        else:
            output["old_per_token_logps"] = logps

    def _mask_band(self, output: dict[str, Any], logps: torch.Tensor, rows: torch.Tensor) -> None:
        on_question = output.get("old_per_token_logps")
        if on_question is None:
            on_question = self._logps_on_question(output)
        keep = band_mask(on_question, logps, *self._band) | ~rows[:, None]
        if "old_logps" in output:
            output[LOSS_MASK] = keep.to(on_question.dtype)
            output["old_logps"] = (on_question * output["completion_mask"] * keep).sum(1)
            return
        mask = output["completion_mask"]
        output["tool_mask"] = output.get("tool_mask", torch.ones_like(mask)) * keep.to(mask.dtype)
        if "num_items_in_batch" in output:
            loss_tokens = (mask * output["tool_mask"]).sum()
            items = self._trainer.accelerator.gather(loss_tokens).sum()
            output["num_items_in_batch"] = items.clamp(min=1)  # older TRL divides by it as it is

    def _logps_on_question(self, output: dict[str, Any]) -> torch.Tensor:
        return self._logps(output["prompt_ids"], output["prompt_mask"], output)

    def _logps_under(self, prompts: list[list[int]], output: dict[str, Any]) -> torch.Tensor:
        device = output["completion_ids"].device
        ids, mask = left_pad(prompts, self._trainer.processing_class.pad_token_id)
        return self._logps(ids.to(device), mask.to(device), output)

    def _logps(
        self, prompt_ids: torch.Tensor, prompt_mask: torch.Tensor, output: dict[str, Any]
    ) -> torch.Tensor:
        """Log-probs of the completions after these prompts, (B, T), by the current weights."""
        trainer = self._trainer
        completion = output["completion_ids"]
        with torch.no_grad():
            result = trainer._get_per_token_logps_and_entropies(
                trainer.model,
                torch.cat([prompt_ids, completion], dim=1),
                torch.cat([prompt_mask, output["completion_mask"]], dim=1),
                completion.shape[1],
                batch_size=trainer.args.per_device_train_batch_size,
            )
        return result[0]  # type: ignore[no-any-return]
