"""Sample for many prompts at once: left padding, a KV cache, and per-row settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Request:
    """A sampling request. `seed` alone decides a row's tokens, whatever else is in the batch."""

    prompt_ids: list[int]
    max_tokens: int
    temperature: float
    seed: int
    top_p: float = 1.0
    top_k: int = -1
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    """Texts that end a response and stay in it. `sample` does not know them, see `Batcher`."""
    note: Mapping[str, Any] = field(default_factory=dict)
    """Extra fields for the log."""


@torch.inference_mode()
def sample(
    model: Any,
    requests: Sequence[Request],
    eos: int,
    pad: int,
    aborted: Callable[[], bool] = lambda: False,
) -> list[tuple[list[int], list[float]]]:
    """Return token ids up to and including the end token, and their log-probs at the temperature (1 if 0).

    Before `min_tokens` the end token has no probability. Once `aborted`, rows end as they are.
    """
    ids, mask = _left_padded([request.prompt_ids for request in requests], pad)
    longest = max(request.max_tokens for request in requests)
    uniform = torch.tensor(
        np.stack([np.random.default_rng(r.seed).random(longest, np.float32) for r in requests])
    )
    temperature = torch.tensor([[request.temperature] for request in requests])
    filters = [
        (row, r.top_p, r.top_k)
        for row, r in enumerate(requests)
        if r.temperature > 0 and (r.top_p < 1 or r.top_k > 0)
    ]
    limits = torch.tensor([request.max_tokens for request in requests])
    least = torch.tensor([request.min_tokens for request in requests])
    done = torch.zeros(len(requests), dtype=torch.bool)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache, tokens, logps, alive = None, [], [], []
    for step in range(longest):
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = output.past_key_values
        logits = output.logits[:, -1].float() / torch.where(temperature > 0, temperature, 1.0)
        logits[least > step, eos] = -torch.inf
        log_softmax = logits.log_softmax(-1)
        drawn = _draw(_filtered(log_softmax.exp(), filters), uniform[:, step, None])
        token = torch.where(temperature[:, 0] > 0, drawn, logits.argmax(-1))
        tokens.append(token)
        logps.append(log_softmax.gather(-1, token[:, None])[:, 0])
        alive.append(~done)
        done = done | (token == eos) | (limits <= step + 1)
        if done.all() or aborted():
            break
        ids = torch.where(done, pad, token)[:, None]
        mask = torch.cat([mask, torch.ones_like(ids)], 1)
        positions = positions[:, -1:] + 1
    lengths = torch.stack(alive, 1).sum(1).tolist()
    rows = zip(
        torch.stack(tokens, 1).tolist(), torch.stack(logps, 1).tolist(), lengths, strict=True
    )
    return [(row[:length], values[:length]) for row, values, length in rows]


@torch.inference_mode()
def log_probs(
    model: Any,
    prompts: Sequence[list[int]],
    responses: Sequence[list[int]],
    temperatures: Sequence[float],
    pad: int,
) -> list[list[float]]:
    """Return the log-probs of given responses at the temperature (1 if 0)."""
    ids, mask = _left_padded([p + r for p, r in zip(prompts, responses, strict=True)], pad)
    logits = model(
        input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)
    ).logits.float()
    scaled = logits / torch.tensor([t or 1.0 for t in temperatures])[:, None, None]
    values = scaled[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return [row[-len(r) :].tolist() for row, r in zip(values, responses, strict=True)]


def _left_padded(rows: Sequence[list[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows))
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def _filtered(probs: torch.Tensor, filters: list[tuple[int, float, int]]) -> torch.Tensor:
    """Keep the top k, and of these the smallest set of mass top p."""
    for row, top_p, top_k in filters:
        values, order = probs[row].sort(descending=True)
        keep = torch.arange(len(values)) < (top_k if top_k > 0 else len(values))
        values = values * keep
        values = values * (values.cumsum(0) - values < top_p * values.sum())
        probs[row] = torch.zeros_like(values).scatter(0, order, values)
    return probs


def _draw(probs: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Draw by the inverse of the distribution function."""
    cumulative = probs.cumsum(-1)
    index = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)[:, 0]
    return index.clamp(max=probs.shape[-1] - 1)
