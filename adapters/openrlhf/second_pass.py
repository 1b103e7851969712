"""Log-probs of distilled rows after the prompt that they were sampled under: `distill_forward`.

Positions follow OpenRLHF: log-probs and masks have no entry for a sequence's first token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from torch import Tensor

ROLLED_OUT: Final = "coevo_rolled_out"
"""The entry of an Experience's info, until log-probs are computed, with what a distilled row ran under: the
length of its trained prompt, the length of its sampled prompt, and the latter's ids. Other rows have two
zeros."""


class Rows(NamedTuple):
    """The input of a forward pass: token ids and mask, (B, T), and a mask of the model's own tokens,
    (B, T - 1)."""

    sequences: Tensor
    attention_mask: Tensor
    action_mask: Tensor


Forward: TypeAlias = Callable[[list[Rows]], list[Tensor]]
"""Computes log-probs, (B, T - 1), of batches."""


def entry(trained: int, rolled_out: Sequence[int]) -> Tensor:
    """Build the `ROLLED_OUT` entry of one row, (1, 2 + P): its trained prompt has `trained` tokens, and it
    ran under the ids `rolled_out`. A row that is not distilled has `entry(0, ())`."""
    return torch.tensor([[trained, len(rolled_out), *rolled_out]])


def after_rollout_prompts(
    experiences: Sequence[Experience], entries: Sequence[Tensor], pad_id: int, forward: Forward
) -> list[Tensor]:
    """Return log-probs of each batch after the prompts its rows ran under, aligned with `action_log_probs`.

    `entries` are the batches' `ROLLED_OUT`, (B, 2 + P). Rows that are not distilled are included, so that
    every process of the model gets its batches.
    """
    moved = [_moved(*pair, pad_id) for pair in zip(experiences, entries, strict=True)]
    found = forward(moved)
    return [
        _moved_back(log_probs, experience.action_mask.shape[1], shifts(rows))
        for log_probs, experience, rows in zip(found, experiences, entries, strict=True)
    ]


def shifts(entries: Tensor) -> list[int]:
    """Return how many tokens longer each row was when sampled than it is in training."""
    return (entries[:, 1] - entries[:, 0]).tolist()


def _moved(experience: Experience, entries: Tensor, pad_id: int) -> Rows:
    sequences, masks = [], []
    for ids, attended, actions, (trained, length, *prompt) in zip(
        experience.sequences,
        experience.attention_mask.bool(),
        experience.action_mask,
        entries.tolist(),
        strict=True,
    ):
        rolled_out = torch.tensor(prompt[:length], dtype=ids.dtype)
        tokens = ids[attended]
        sequences.append(torch.cat([rolled_out, tokens[trained:]]))
        masks.append(_shifted(actions[: len(tokens) - 1], length - trained))
    width = max(map(len, sequences))
    return Rows(
        torch.stack([_filled(ids, width, pad_id) for ids in sequences]),
        torch.stack([_filled(torch.ones_like(ids), width, 0) for ids in sequences]),
        torch.stack([_filled(mask, width - 1, 0) for mask in masks]),
    )


def _moved_back(log_probs: Tensor, width: int, by: Sequence[int]) -> Tensor:
    rows = [_shifted(row, -one) for row, one in zip(log_probs, by, strict=True)]
    return torch.stack([_filled(row[:width], width, 0) for row in rows])


def _shifted(row: Tensor, by: int) -> Tensor:
    """Move every entry `by` places later. New entries are 0; entries that drop out belong to a prompt."""
    return torch.cat([row.new_zeros(by), row]) if by >= 0 else row[-by:]


def _filled(row: Tensor, width: int, value: int) -> Tensor:
    return torch.nn.functional.pad(row, (0, width - len(row)), value=value)
