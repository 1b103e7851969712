"""When OpenRLHF may write a checkpoint. The engine's state is in that of the prompt dataloader."""

from __future__ import annotations

import math

from prompt_coevo.adapters.openrlhf.host import Arguments
from prompt_coevo.adapters.openrlhf.progress import Progress


def may_be_saved(args: Arguments, progress: Progress, *, evaluates: bool) -> bool:
    """After saving steps, after evaluations, and after any batch if these may be later than it."""
    if evaluates and args.train.async_enable and math.isfinite(args.eval.steps):
        return True
    steps = [args.ckpt.save_steps, *([args.eval.steps] if evaluates else [])]
    return not all(progress.batches % step for step in steps)
