"""Which old log-probs distilled rows get: the setting `distill_ratio`.

The trainer has already computed everything from the question's own prompt `x`, because that is what
its generation returned (`distil.py`). Here the rest is put right: fields that the sampler filled under
`x~`, and what the modes `band` and `templated` ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import torch

from prompt_coevo.adapters.trl.contract import Watched, check_batch
from prompt_coevo.adapters.trl.host import VERSIONS, Batch, Ids, Logps, Trainer, tokenizer_of
from prompt_coevo.doors.patching import swapped, wrap
from prompt_coevo.doors.ratio_tensors import distil_ratio, left_pad
from prompt_coevo.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LOSS_MASK: Final = "coevo_loss_mask"
"""Field of a generation batch: tokens that stay in RLOO's loss (GRPO has a field of its own)."""
_OLD: Final = "old_per_token_logps"
"""GRPO's field; the trainer leaves it out where it would be the first loss's own log-probs."""
_OLD_SUMS: Final = "old_logps"
"""RLOO's field, sums over the completion."""
_SAMPLER: Final = "sampling_per_token_logps"


class DistilRatio:
    """Applies `distill_ratio` to the output of one generation round."""

    def __init__(self, trainer: Trainer, settings: Settings) -> None:
        self._trainer = trainer
        self._mode = settings.distill_ratio
        self._band = settings.distill_band
        self._loss_mask: torch.Tensor | None = None
        self._must_read: str | None = None
        """The field that the next loss has to read: what is put there must reach it."""
        self._looked = False

    def open(self) -> list[Callable[[], None]]:
        """Wrap what masks RLOO's loss, which has no field for it; what is returned puts it back."""
        if self._mode == "clean":
            return []
        undo = [wrap(self._trainer, _loss_of(self._trainer), self._around_loss, VERSIONS)]
        if self._mode == "band":
            logps = "_get_per_token_logps_and_entropies"
            undo.append(wrap(self._trainer, logps, self._around_logps, VERSIONS))
        return undo

    def apply(
        self, output: Batch, rollout_prompts: Ids, trained_prompts: Ids, distilled: list[bool]
    ) -> None:
        """Change `output` in place. Called on all ranks of a round with distilled rows on any rank.

        `rollout_prompts` are the prompt ids that the sampler saw, `trained_prompts` those to train on;
        `distilled` says which rows were sampled under a template. All are of this rank's rows. The first
        batch is looked at (`contract.py`), which raises HostError.
        """
        if not self._looked:
            self._looked = True
            check_batch(self._trainer, output, trained_prompts, distilled, self._logps)
            if self._mode != "clean":
                grpo_field = _OLD if self._mode == "templated" else "tool_mask"
                self._must_read = _OLD_SUMS if _OLD_SUMS in output else grpo_field
        rows = torch.tensor(distilled, device=output["completion_ids"].device)
        if "importance_sampling_ratio" in output:  # it would weigh these tokens ~0
            output["importance_sampling_ratio"][rows] = 1.0
        by_sampler = output.get(_SAMPLER)
        clean = self._mode == "clean"
        on_rollout_prompt = by_sampler if clean else self._logps_after(rollout_prompts, output)
        if on_rollout_prompt is None:
            return  # nothing of the sampler's can reach the loss
        on_question = output.get(_OLD)
        if on_question is None and self._mode == "templated":
            on_question = on_rollout_prompt  # where nothing is distilled the prompts are the same
        elif on_question is None:
            on_question = self._logps(output["prompt_ids"], output["prompt_mask"], output)
        new = distil_ratio(
            self._mode,
            self._band,
            on_question=on_question,
            on_rollout_prompt=on_rollout_prompt,
            distilled=rows[:, None],
            by_sampler=by_sampler,
        )
        if new.old is not None:
            _set_old(output, new.old, rows)
        if new.sampler is not None and by_sampler is not None:
            output[_SAMPLER] = new.sampler.to(by_sampler.dtype)
        if new.keep is not None:
            self._mask(output, new.keep, on_question)

    def _mask(self, output: Batch, keep: torch.Tensor, old: torch.Tensor) -> None:
        mask = output["completion_mask"]
        if _OLD_SUMS in output:
            output[_LOSS_MASK] = keep.to(old.dtype)
            output[_OLD_SUMS] = (old * mask * keep).sum(1)
            return
        output["tool_mask"] = output.get("tool_mask", torch.ones_like(mask)) * keep.to(mask.dtype)
        if "num_items_in_batch" in output:
            loss_tokens = (mask * output["tool_mask"]).sum()
            items = self._trainer.accelerator.gather(loss_tokens).sum()
            output["num_items_in_batch"] = items.clamp(min=1)  # older TRL divides by it as it is

    def _around_loss(
        self,
        original: Callable[[PreTrainedModel, Batch], torch.Tensor],
        model: PreTrainedModel,
        inputs: Batch,
    ) -> torch.Tensor:
        field, self._must_read = self._must_read, None
        with swapped(self, "_loss_mask", inputs.get(_LOSS_MASK)):
            if field is None:
                return original(model, inputs)
            watched = Watched(inputs)
            loss = original(model, watched)
        watched.check(self._trainer, field)
        return loss

    def _around_logps(
        self, original: Callable[..., Logps], /, *args: object, **kwargs: object
    ) -> Logps:
        result = original(*args, **kwargs)
        if self._loss_mask is None:
            return result
        return (result[0] * self._loss_mask, *result[1:])

    def _logps_after(self, prompts: Ids, output: Batch) -> torch.Tensor:
        device = output["completion_ids"].device
        ids, mask = left_pad(prompts, tokenizer_of(self._trainer).pad_token_id)
        return self._logps(ids.to(device), mask.to(device), output)

    def _logps(
        self, prompt_ids: torch.Tensor, prompt_mask: torch.Tensor, output: Batch
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
        return result[0]


def _loss_of(trainer: Trainer) -> str:
    """Liger has a loss of its own below TRL 1.16; since then it brings kernels for layers alone."""
    liger = getattr(trainer, "use_liger_kernel", False) and hasattr(trainer, "compute_liger_loss")
    return "compute_liger_loss" if liger else "_compute_loss"


def _set_old(output: Batch, old: torch.Tensor, rows: torch.Tensor) -> None:
    if _OLD_SUMS in output:
        sums = (old * output["completion_mask"]).sum(1)
        output[_OLD_SUMS] = torch.where(rows, sums, output[_OLD_SUMS])
    else:
        output[_OLD] = old
