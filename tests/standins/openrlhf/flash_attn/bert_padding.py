"""Pad and unpad as the package's functions of these names do."""

from __future__ import annotations

import torch
from einops import rearrange as rearrange
from torch import Tensor


def unpad_input(
    hidden_states: Tensor, attention_mask: Tensor
) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """Turn (batch, length, ...) into (tokens, ...), with their places, the samples' starts and lengths."""
    lengths = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(attention_mask.flatten(), as_tuple=False).flatten()
    begins = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    tokens = index_first_axis(rearrange(hidden_states, "b s ... -> (b s) ..."), indices)
    return tokens, indices, begins, int(lengths.max()), lengths


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """Turn (tokens, ...) into (batch, length, ...), with 0 where there is no token."""
    padded = hidden_states.new_zeros((batch * seqlen, *hidden_states.shape[1:]))
    padded = padded.index_copy(0, indices, hidden_states)
    return rearrange(padded, "(b s) ... -> b s ...", b=batch)


def index_first_axis(values: Tensor, indices: Tensor) -> Tensor:
    """Return the rows at these places."""
    return values[indices]
