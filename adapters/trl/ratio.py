"""Keep the template's effect on the sampler's log-probs out of TRL's correction in distilled rows.

The trainer has already computed everything from the question's own prompt `x`, because its generation
returned that (`distill.py`). Here the fields that the sampler filled under `x~` are corrected.

With `distill_forward` TRL's correction for the sampler compares both under `x~`. When the trainer asks for
old log-probs of a round with distilled rows, these rows get those after `x~`; after the correction is
computed, they get those after `x`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from prompt_coevo.adapters.common.patching import wrap
from prompt_coevo.adapters.common.ratio_tensors import (
    TEMPLATE_EFFECT,
    left_pad,
    template_effect,
    without_template,
)
from prompt_coevo.adapters.trl.contract import check_batch, check_width
from prompt_coevo.adapters.trl.host import VERSIONS, Batch, Ids, Logps, Trainer
from prompt_coevo.settings import Settings
from prompt_coevo.tokens import tokenizer_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_OLD: Final = "old_per_token_logps"
"""GRPO's field. The trainer omits it where it would equal the log-probs of the first loss."""
_SAMPLER: Final = "sampling_per_token_logps"


def punish_nothing(output: Batch, rows: list[bool]) -> None:
    """Set negative advantages to 0 in these rows of a generation round's batch. The loss still divides by
    their tokens, and a KL penalty in the loss still counts them."""
    advantages = output["advantages"]
    chosen = torch.tensor(rows, device=advantages.device)
    chosen = chosen.view(-1, *[1] * (advantages.dim() - 1))
    output["advantages"] = torch.where(chosen, advantages.clamp(min=0), advantages)


class DistillRatio:
    """Corrects the log-probs of generation rounds with distilled rows."""

    def __init__(self, trainer: Trainer, settings: Settings) -> None:
        self._trainer = trainer
        self._forward = settings.distill_forward
        self._awaited: tuple[Ids, list[bool]] | None = None
        """The rollout prompts and which rows are distilled, until the trainer asks for old log-probs."""
        self._seen: tuple[torch.Tensor, torch.Tensor] | None = None
        """The old log-probs after `x` and after `x~`."""
        self._looked = False

    def open(self) -> list[Callable[[], None]]:
        """Wrap the trainer's log-probs if `distill_forward` is set. Return functions that restore them."""
        if not self._forward:
            return []
        name = "_get_per_token_logps_and_entropies"
        return [wrap(self._trainer, name, self._around_logps, VERSIONS)]

    def forget(self) -> None:
        """Drop what is kept of a round, however it ended."""
        self._awaited = self._seen = None

    def begin(self, rollout_prompts: Ids, distilled: list[bool]) -> None:
        """Begin a round that `apply` will be called for, once its completions are there."""
        if self._forward and self._corrects_sampler():
            self._awaited = rollout_prompts, distilled

    def apply(
        self, output: Batch, rollout_prompts: Ids, trained_prompts: Ids, distilled: list[bool]
    ) -> None:
        """Correct `output` in place. Call it on all ranks of a round with distilled rows on any rank.

        `rollout_prompts` are the prompt ids that the sampler saw, `trained_prompts` those to train on;
        `distilled` says which rows were sampled under a template. All are of this rank's rows. The first
        batch is checked (`contract.py`), which may raise HostError.
        """
        seen = self._seen
        if seen is not None:
            output[_OLD] = seen[0]
        if not self._looked:
            self._looked = True
            check_batch(self._trainer, output, trained_prompts, distilled, self._logps)
        rows = torch.tensor(distilled, device=output["completion_ids"].device)
        if "importance_sampling_ratio" in output and seen is None:  # it would scale them by ~0
            output["importance_sampling_ratio"][rows] = 1.0
        by_sampler = output.get(_SAMPLER)
        if by_sampler is None and not self._forward:
            return  # no log-probs of the sampler can reach the loss
        on_question = output.get(_OLD)
        if on_question is None:
            on_question = self._logps(output["prompt_ids"], output["prompt_mask"], output)
        check_width(self._trainer, on_question, output["completion_ids"].shape[1])
        on_rollout_prompt = None
        if self._forward:
            on_rollout_prompt = seen[1] if seen else self._logps_after(rollout_prompts, output)
            self._measure(output, on_question, on_rollout_prompt, rows)
        if by_sampler is not None:
            clean = without_template(on_question, by_sampler, rows[:, None], on_rollout_prompt)
            output[_SAMPLER] = clean.to(by_sampler.dtype)

    def _corrects_sampler(self) -> bool:
        """Check whether TRL weights tokens by trainer over sampler probabilities; RLOO never does."""
        trainer = self._trainer
        return trainer.use_vllm and getattr(trainer, "vllm_importance_sampling_correction", False)

    def _measure(
        self,
        output: Batch,
        on_question: torch.Tensor,
        on_rollout_prompt: torch.Tensor,
        rows: torch.Tensor,
    ) -> None:
        """Log how far the templates move the policy, over all ranks' distilled rows."""
        counted = output["completion_mask"] * output.get("tool_mask", 1) * rows[:, None]
        here = torch.tensor(
            template_effect(on_question, on_rollout_prompt, counted), device=rows.device
        )
        total, tokens = self._trainer.accelerator.gather(here[None]).sum(0).tolist()
        if tokens:
            self._trainer._metrics["train"][TEMPLATE_EFFECT].append(total / tokens)

    def _around_logps(self, original: Callable[..., Logps], /, *args: Any, **kwargs: Any) -> Logps:
        result = original(*args, **kwargs)
        awaited, self._awaited = self._awaited, None
        if awaited is None:
            return result
        return (self._instead(*awaited, result[0], *args, **kwargs), *result[1:])

    def _instead(
        self,
        prompts: Ids,
        distilled: list[bool],
        on_question: torch.Tensor,
        model: PreTrainedModel,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *_: object,
        **__: object,
    ) -> torch.Tensor:
        """Return the log-probs to compare with the sampler's: in distilled rows those after `x~`."""
        completions = {
            "completion_ids": input_ids[:, -logits_to_keep:],
            "completion_mask": attention_mask[:, -logits_to_keep:],
        }
        check_width(self._trainer, on_question, logits_to_keep)
        on_rollout_prompt = self._logps_after(prompts, completions)
        self._seen = on_question, on_rollout_prompt
        rows = torch.tensor(distilled, device=on_question.device)
        return torch.where(rows[:, None], on_rollout_prompt, on_question)

    def _logps_after(self, prompts: Ids, output: Batch) -> torch.Tensor:
        device = output["completion_ids"].device
        ids, mask = left_pad(prompts, tokenizer_of(self._trainer.processing_class).pad_token_id)
        logps = self._logps(ids.to(device), mask.to(device), output)
        return check_width(self._trainer, logps, output["completion_ids"].shape[1])

    def _logps(
        self, prompt_ids: torch.Tensor, prompt_mask: torch.Tensor, output: Batch
    ) -> torch.Tensor:
        """Return log-probs of the completions after these prompts, (B, T), by the current weights."""
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
