"""Tell when OpenRLHF may write a checkpoint. The engine's state travels in the prompt dataloader's."""

from __future__ import annotations

import math

from prompt_coevo.adapters.openrlhf.host import Arguments
from prompt_coevo.adapters.openrlhf.progress import Progress


def may_be_saved(args: Arguments, progress: Progress, *, evaluates: bool) -> bool:
    """Return True after saving steps and evaluations, and always if evaluations may lag behind."""
    if evaluates and args.train.async_enable and math.isfinite(args.eval.steps):
        return True
    steps = [args.ckpt.save_steps, *([args.eval.steps] if evaluates else [])]
    return not all(progress.batches % step for step in steps)
