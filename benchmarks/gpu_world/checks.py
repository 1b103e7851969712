"""What a base policy must know, and must not, before it is worth training."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from questions import explained
from scoring import greedy
from tier import Base
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompt_coevo.demo.splits import held_out_tasks

_BOUNDS: Final = {
    "hard words, no hint": (-math.inf, 0.02),
    "hard words, the right explanation alone": (0.9, math.inf),
    "hard words, the right explanation among four": (0.8, math.inf),
    "easy words, no hint": (0.9, math.inf),
    "medium words, no hint": (-math.inf, 0.5),
}
"""Greedy accuracy must lie between. A trap is likelier than what a medium word means."""


def check(base: Base) -> dict[str, float]:
    """Greedy accuracy of a base policy on held-out questions."""
    tasks = held_out_tasks(base.world, base.tier.held_out)
    of_kind = {
        kind: [task for task in tasks if task.kind == kind] for kind in base.tier.size.counts
    }
    hard = of_kind["hard"]
    asked = {
        "hard words, no hint": hard,
        "hard words, the right explanation alone": explained(base.world, hard, 0),
        "hard words, the right explanation among four": explained(base.world, hard, 3),
        "easy words, no hint": of_kind["easy"],
        "medium words, no hint": of_kind["medium"],
    }
    model, tokenizer = loaded(base)
    return {
        name: float(greedy(model, tokenizer, base, tasks).mean()) for name, tasks in asked.items()
    }


def failed(found: dict[str, float]) -> list[str]:
    """The checks that a base policy does not pass, with its numbers."""
    said = []
    for name, value in found.items():
        low, high = _BOUNDS[name]
        if not low < value < high:
            bound = f"above {low}" if high == math.inf else f"below {high}"
            said.append(f"{name}: {value:.3f}, which must be {bound}")
    return said


def loaded(base: Base) -> tuple[Any, Any]:
    """The base policy in full precision, on the GPU if there is one, and its tokenizer."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(base.folder, dtype=torch.float32).to(device)
    return model, AutoTokenizer.from_pretrained(base.folder)
