"""Context distillation on token lists: P2O eq. 5, without torch.

A templated rollout was sampled under `x~`; it is trained on as if it had been sampled under `x`. The
prompt's tokens change, the completion's do not, and everything that counts from the start of the
sequence moves by the difference of the prompts' lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

TokenIds: TypeAlias = Sequence[int]
TokenRange: TypeAlias = tuple[int, int]


def swap_prompts(
    rollout_prompts: Sequence[TokenIds],
    train_prompts: Sequence[TokenIds],
    distilled: Sequence[bool],
) -> list[list[int]]:
    """The prompt ids to train on: those of `x` in distilled rows, the rollout's own elsewhere.

    `rollout_prompts` and `distilled` have one entry per row; `train_prompts` one per distilled row, in
    their order. Raises ValueError if the numbers do not fit.
    """
    if len(rollout_prompts) != len(distilled) or len(train_prompts) != sum(distilled):
        raise ValueError(
            f"{len(rollout_prompts)} prompts, {len(distilled)} flags and {len(train_prompts)} "
            "prompts to "
            f"train on do not fit together: expected one flag per prompt, and {sum(distilled)} to "
            "train on"
        )
    replacements = iter(train_prompts)
    return [
        list(next(replacements) if is_distilled else ids)
        for ids, is_distilled in zip(rollout_prompts, distilled, strict=True)
    ]


def shift_ranges(
    ranges: Sequence[TokenRange], rollout_prompt_length: int, train_prompt_length: int
) -> list[TokenRange]:
    """Move `[start, end)` ranges of model tokens along when the prompt in front of them is swapped.

    Positions count from the start of the whole sequence. Raises ValueError for a range that begins
    inside the prompt, which holds no tokens of the model.
    """
    shift = train_prompt_length - rollout_prompt_length
    for start, _ in ranges:
        if start < rollout_prompt_length:
            raise ValueError(
                f"a range of model tokens starts at {start}, inside the prompt of "
                f"{rollout_prompt_length} tokens"
            )
    return [(start + shift, end + shift) for start, end in ranges]
