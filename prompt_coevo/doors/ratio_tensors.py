"""Which log-probs distilled rollouts are trained with: the setting `distill_ratio`.

A distilled rollout was sampled under `x~` and is trained on as if under `x`. The sampler's log-probs,
and any that are computed after `x~`, are then of another distribution than the one that learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

Mode: TypeAlias = Literal["clean", "band", "templated"]


class Corrected(NamedTuple):
    """What takes the place of the host's tensors; None where these stay as they are.

    `old` is what the ratio of the policy gradient is taken against, `sampler` what corrections for the
    sampler see, `keep` is True at the tokens that stay in the loss.
    """

    old: Tensor | None = None
    sampler: Tensor | None = None
    keep: Tensor | None = None


def distil_ratio(
    mode: Mode,
    band: tuple[float, float],
    *,
    on_question: Tensor,
    on_rollout_prompt: Tensor,
    distilled: Tensor,
    by_sampler: Tensor | None = None,
    corrects: bool = False,
) -> Corrected:
    """Log-probs for rows of which some are distilled; the others keep theirs.

    `on_question` and `on_rollout_prompt` are log-probs of the sampled tokens after `x` and after `x~`,
    of one shape; `distilled` is True for distilled rows, in a shape that broadcasts to it, such as
    (B, 1) for (B, T). `by_sampler` is the sampler's, where that is not what `on_rollout_prompt` is.
    `corrects`: `on_rollout_prompt` is by the trainer (the setting `distill_forward`), so that the
    difference between trainer and sampler is known without the template's part.

    `clean`: old log-probs are on the question. `band`: so too, and tokens outside the band leave the
    loss. `templated`: old log-probs are those after `x~`. In the first two no correction for the sampler
    sees the template: what it sees of distilled rows is `on_question`, less the difference between trainer
    and sampler where that is known.
    """
    if mode == "templated":
        return Corrected(old=torch.where(distilled, on_rollout_prompt, on_question))
    sampler = on_rollout_prompt if by_sampler is None else by_sampler
    unseen = on_question
    if corrects:
        unseen = on_question - (on_rollout_prompt - sampler)
    unbiased = torch.where(distilled, unseen, sampler)
    if mode == "clean":
        return Corrected(sampler=unbiased)
    keep = band_mask(on_question, on_rollout_prompt, *band) | ~distilled
    return Corrected(sampler=unbiased, keep=keep)


def band_mask(
    logps_on_question: Tensor, logps_on_rollout_prompt: Tensor, low: float, high: float
) -> Tensor:
    """Which tokens of distilled rollouts stay in the loss under `distill_ratio = "band"`.

    True where `low <= π(y_t|x) / π(y_t|x~) <= high`. Both inputs are (B, T) log-probs by the same
    weights. P2O names no such rule; the authors' released runs use 0.01 and 10.
    """
    ratio = (logps_on_question - logps_on_rollout_prompt).exp()
    return (ratio >= low) & (ratio <= high)


TEMPLATE_EFFECT: Final = "coevo/template_logp_difference"
"""The metric with the mean of log π(y_t|x~) - log π(y_t|x) over the tokens of distilled rollouts."""


def template_effect(
    on_question: Tensor, on_rollout_prompt: Tensor, counted: Tensor
) -> tuple[float, int]:
    """Sum over tokens of log π(y_t|x~) - log π(y_t|x), in nats, and how many these are.

    All of one shape, log-probs by the same weights; `counted` is True (or not 0) at the response's tokens
    of distilled rows. Its mean estimates how far the template moves the policy (KL by token).
    """
    chosen = counted.bool()
    difference = (on_rollout_prompt.double() - on_question.double())[chosen]
    return float(difference.sum()), int(chosen.sum())


def left_pad(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Prompt ids and their mask, both (B, P), for prompts of unequal length."""
    width = max(len(ids) for ids in prompts)
    ids = torch.tensor([[pad_id] * (width - len(row)) + list(row) for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    return ids, mask
