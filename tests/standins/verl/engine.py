"""VeRL's own FSDP2 engine, which runs on a CPU but is registered for GPUs only.

Replaced is one argument: the weights of a reference policy are not pinned, which needs an accelerator.
"""

from __future__ import annotations

from typing import Any


def register(module: Any) -> None:
    """Register the engines of `verl.workers.engine.fsdp.transformer_impl` for the CPU too."""
    from verl.workers.engine.base import EngineRegistry

    for model_type, engine in (
        ("language_model", module.FSDPEngineWithLMHead),
        ("value_model", module.FSDPEngineWithValueHead),
    ):
        EngineRegistry.register(model_type=model_type, backend=["fsdp2"], device="cpu")(engine)
    policy = module.CPUOffloadPolicy
    module.CPUOffloadPolicy = lambda pin_memory: policy(pin_memory=False)
