"""Time steps of the real GRPOTrainer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import torch
from tiny_trainer import build
from transformers import TrainerCallback

from prompt_coevo.adapters.trl import attach

QUESTIONS: Final = 2
GROUP: Final = 6


class Clock(TrainerCallback):
    """Record wall seconds of every step; runs after our callback, so that its work counts."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last: float | None = None

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._last = self._last or time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        now = time.perf_counter()
        assert self._last is not None
        self.seconds.append(now - self._last)
        self._last = now


def seconds(folder: str, settings: Mapping[str, Any], steps: int) -> list[float]:
    """Return how long every step took."""
    torch.set_num_threads(1)
    trainer = build(
        folder,
        questions=512,
        rollouts=QUESTIONS * GROUP,
        group=GROUP,
        steps=steps,
        learning_rate=1e-7,  # lengths and rewards stay the same, so that steps can be compared
        logging_steps=50,
    )
    attach(trainer, settings)
    clock = Clock()
    trainer.add_callback(clock)
    trainer.train()
    return clock.seconds
