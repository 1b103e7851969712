"""Which old log-probs distilled rows get: the setting `distill_ratio`.

The trainer has already computed everything from the question's own prompt `x`, because that is what
its generation returned (`distil.py`). Here the rest is put right: fields that the sampler filled under
`x~`, and what the modes `band` and `templated` ask for.

With `distill_forward` the trainer's correction for the sampler compares both under `x~`: when it asks for
old log-probs of a round with distilled rows, these rows get those after `x~`, and after the correction is
computed those after `x` take their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from prompt_coevo.adapters.trl.contract import Watched, check_batch
from prompt_coevo.adapters.trl.host import VERSIONS, Batch, Ids, Logps, Trainer, tokenizer_of
from prompt_coevo.doors.patching import swapped, wrap
from prompt_coevo.doors.ratio_tensors import (
    TEMPLATE_EFFECT,
    distil_ratio,
    left_pad,
    template_effect,
)
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
        self._forward = settings.distill_forward
        self._awaited: tuple[Ids, list[bool]] | None = None
        """What rows ran under and which are distilled, until the trainer asks for old log-probs."""
        self._seen: tuple[torch.Tensor, torch.Tensor] | None = None
        """These, after `x` and after `x~`."""
        self._loss_mask: torch.Tensor | None = None
        self._must_read: str | None = None
        """The field that the next loss has to read: what is put there must reach it."""
        self._looked = False

    def open(self) -> list[Callable[[], None]]:
        """Wrap what masks RLOO's loss, which has no field for it; what is returned puts it back."""
        undo = []
        if self._mode != "clean":
            undo.append(wrap(self._trainer, _loss_of(self._trainer), self._around_loss, VERSIONS))
        if self._mode == "band" or self._forward:
            logps = "_get_per_token_logps_and_entropies"
            undo.append(wrap(self._trainer, logps, self._around_logps, VERSIONS))
        return undo

    def forget(self) -> None:
        """A round is over, however it ended."""
        self._awaited = self._seen = None

    def begin(self, rollout_prompts: Ids, distilled: list[bool]) -> None:
        """The completions of a round that `apply` will be called for are there."""
        if self._forward and self._corrects_sampler():
            self._awaited = rollout_prompts, distilled

    def apply(
        self, output: Batch, rollout_prompts: Ids, trained_prompts: Ids, distilled: list[bool]
    ) -> None:
        """Change `output` in place. Called on all ranks of a round with distilled rows on any rank.

        `rollout_prompts` are the prompt ids that the sampler saw, `trained_prompts` those to train on;
        `distilled` says which rows were sampled under a template. All are of this rank's rows. The first
        batch is looked at (`contract.py`), which raises HostError.
        """
        seen = self._seen
        if seen is not None:
            output[_OLD] = seen[0]
        if not self._looked:
            self._looked = True
            check_batch(self._trainer, output, trained_prompts, distilled, self._logps)
            if self._mode != "clean":
                grpo_field = _OLD if self._mode == "templated" else "tool_mask"
                self._must_read = _OLD_SUMS if _OLD_SUMS in output else grpo_field
        rows = torch.tensor(distilled, device=output["completion_ids"].device)
        if "importance_sampling_ratio" in output and seen is None:  # it would weigh these tokens ~0
            output["importance_sampling_ratio"][rows] = 1.0
        by_sampler = output.get(_SAMPLER)
        if seen is not None:
            on_rollout_prompt = seen[1]
        elif self._forward or self._mode != "clean":
            on_rollout_prompt = self._logps_after(rollout_prompts, output)
        elif by_sampler is not None:
            on_rollout_prompt = by_sampler
        else:
            return  # nothing of the sampler's can reach the loss
        on_question = output.get(_OLD)
        if on_question is None and self._mode == "templated" and not self._forward:
            on_question = on_rollout_prompt  # where nothing is distilled the prompts are the same
        elif on_question is None:
            on_question = self._logps(output["prompt_ids"], output["prompt_mask"], output)
        if self._forward:
            self._measure(output, on_question, on_rollout_prompt, rows)
        new = distil_ratio(
            self._mode,
            self._band,
            on_question=on_question,
            on_rollout_prompt=on_rollout_prompt,
            distilled=rows[:, None],
            by_sampler=by_sampler,
            corrects=self._forward,
        )
        if new.old is not None:
            _set_old(output, new.old, rows)
        if new.sampler is not None and by_sampler is not None:
            output[_SAMPLER] = new.sampler.to(by_sampler.dtype)
        if new.keep is not None:
            self._mask(output, new.keep, on_question)

    def _corrects_sampler(self) -> bool:
        """Whether TRL weighs tokens by the trainer's log-probs over the sampler's; RLOO never does."""
        trainer = self._trainer
        return trainer.use_vllm and getattr(trainer, "vllm_importance_sampling_correction", False)

    def _measure(
        self,
        output: Batch,
        on_question: torch.Tensor,
        on_rollout_prompt: torch.Tensor,
        rows: torch.Tensor,
    ) -> None:
        """Log what the templates do to the policy, over all ranks' distilled rows."""
        counted = output["completion_mask"] * output.get("tool_mask", 1) * rows[:, None]
        here = torch.tensor(
            template_effect(on_question, on_rollout_prompt, counted), device=rows.device
        )
        total, tokens = self._trainer.accelerator.gather(here[None]).sum(0).tolist()
        if tokens:
            self._trainer._metrics["train"][TEMPLATE_EFFECT].append(total / tokens)

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

    def _around_logps(self, original: Callable[..., Logps], /, *args: Any, **kwargs: Any) -> Logps:
        result = original(*args, **kwargs)
        if self._loss_mask is not None:
            return (result[0] * self._loss_mask, *result[1:])
        if self._awaited is None:
            return result
        return (self._instead(result[0], *args, **kwargs), *result[1:])

    def _instead(
        self,
        on_question: torch.Tensor,
        model: PreTrainedModel,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *_: object,
        **__: object,
    ) -> torch.Tensor:
        """Log-probs that the trainer compares the sampler's with: of distilled rows those after `x~`."""
        awaited, self._awaited = self._awaited, None
        if awaited is None:
            return on_question
        prompts, distilled = awaited
        completions = {
            "completion_ids": input_ids[:, -logits_to_keep:],
            "completion_mask": attention_mask[:, -logits_to_keep:],
        }
        on_rollout_prompt = self._logps_after(prompts, completions)
        self._seen = on_question, on_rollout_prompt
        rows = torch.tensor(distilled, device=on_question.device)
        return torch.where(rows[:, None], on_rollout_prompt, on_question)

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
