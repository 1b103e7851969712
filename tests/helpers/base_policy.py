"""Compute log-probs of the base policy with a separate forward pass."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from worlds.pairs.world import base_policy_path


def log_probs(prompt: list[int], response: list[int]) -> list[float]:
    """Return the log-probs of the response's tokens at temperature 1."""
    with torch.no_grad():
        logits = _model()(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1)[range(len(response)), response].tolist()  # type: ignore[no-any-return]


@cache
def _model() -> Any:
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32).eval()
