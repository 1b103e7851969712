"""Run VeRL's own FSDP2 engine on a CPU, although it is registered for GPUs only.

Two arguments are replaced: the weights of a reference policy are not pinned, which needs an accelerator,
and a critic is loaded with eager attention; VeRL asks for flash-attn whatever the configuration says.
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


def load_critics_eagerly(module: Any) -> None:
    """Load critics with eager attention, in `verl.utils.model`."""

    def load(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            torch_dtype=torch_dtype,
            config=model_config,
            attn_implementation="eager",
            trust_remote_code=trust_remote_code,
        )

    module.load_valuehead_model = load
