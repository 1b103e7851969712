"""Context distillation on padded tensors. The one core file that imports torch.

B rows, P prompt tokens (padded left), T completion tokens (padded right).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def left_pad(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Prompt ids and their mask, both (B, P), for prompts of unequal length."""
    width = max(len(ids) for ids in prompts)
    ids = torch.tensor([[pad_id] * (width - len(row)) + list(row) for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    return ids, mask


def band_mask(
    logps_on_question: Tensor, logps_on_rollout_prompt: Tensor, low: float, high: float
) -> Tensor:
    """Which tokens of distilled rollouts stay in the loss under `distill_ratio = "band"`.

    True where `low <= π(y_t|x) / π(y_t|x~) <= high`. Both inputs are (B, T) log-probs by the same
    weights. P2O names no such rule; the authors' released runs use 0.01 and 10.
    """
    ratio = (logps_on_question - logps_on_rollout_prompt).exp()
    return (ratio >= low) & (ratio <= high)
