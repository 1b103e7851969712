"""Rewards of greedy answers, on whatever device the policy is on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from tier import Base

from prompt_coevo.demo.digits import Asked
from prompt_coevo.demo.evaluate import rewards, undisturbed


def greedy(model: Any, tokenizer: Any, base: Base, tasks: Sequence[Asked]) -> np.ndarray:
    """One answer to each question, in the precision of training: bf16 on a GPU."""
    on_gpu = model.device.type == "cuda"
    precision = torch.autocast("cuda", torch.bfloat16) if on_gpu else nullcontext()
    with undisturbed(model), precision:
        return rewards(
            model,
            tokenizer,
            tasks,
            grade=base.world.reward,
            max_completion=base.tier.max_completion,
        )
