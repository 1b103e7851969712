"""Log-probs of distilled rollouts, for a trainer's correction of its mismatch with the sampler.

A distilled rollout was sampled under `x~` and is trained on as if under `x`. Old log-probs are computed on
`x`, but the sampler's belong to another distribution: a correction that saw them would weight these tokens
by π(y|x)/π(y|x~).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor


def without_template(
    on_question: Tensor,
    by_sampler: Tensor,
    distilled: Tensor,
    on_rollout_prompt: Tensor | None = None,
) -> Tensor:
    """Return the sampler's log-probs without the template's effect in distilled rows.

    `on_question` are the trainer's log-probs of the sampled tokens after `x`, `on_rollout_prompt` those
    after `x~` (with `distill_forward`), all of the shape of `by_sampler`; `distilled` is True for
    distilled rows, in a shape that broadcasts to it, such as (B, 1) for (B, T).

    A distilled row gets `on_question`, so that a correction finds nothing to correct. With
    `on_rollout_prompt`, the difference between trainer and sampler under the same prompt is subtracted, so
    that only this difference is corrected. Other rows are unchanged.
    """
    clean = on_question
    if on_rollout_prompt is not None:
        clean = on_question - (on_rollout_prompt - by_sampler)
    return torch.where(distilled, clean, by_sampler)


TEMPLATE_EFFECT: Final = "coevo/template_logp_difference"
"""Metric: the mean of log π(y_t|x~) - log π(y_t|x) over the tokens of distilled rollouts."""


def template_effect(
    on_question: Tensor, on_rollout_prompt: Tensor, counted: Tensor
) -> tuple[float, int]:
    """Sum log π(y_t|x~) - log π(y_t|x) over tokens. Return the sum, in nats, and the number of tokens.

    All tensors have one shape, log-probs are by the same weights; `counted` is True (or not 0) at the
    response's tokens of distilled rows. The mean estimates how far the template moves the policy (KL per
    token).
    """
    chosen = counted.bool()
    difference = (on_rollout_prompt.double() - on_question.double())[chosen]
    return float(difference.sum()), int(chosen.sum())


def left_pad(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Pad prompts of unequal length on the left. Return ids and mask, both (B, P)."""
    width = max(len(ids) for ids in prompts)
    ids = torch.tensor([[pad_id] * (width - len(row)) + list(row) for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    return ids, mask
