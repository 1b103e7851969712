"""Replace the accelerator: names of `torch.cuda`, DeepSpeed without extensions, usually float32 for bf16.

DeepSpeed's CPU accelerator compiles two C++ extensions at its first use, minutes on a small machine.
Neither is needed: its setting `torch_adam` takes torch's AdamW for its fused one, and without its
shared-memory operator it reduces through gloo, as it does where that cannot be built. OpenRLHF trains in
bf16 or fp16, in which the log-probs of a sampler with a cache and of a forward pass differ in the second
digit; in float32 tests can tell rounding from mistakes. With `COEVO_TEST_BF16` all is in the type that
OpenRLHF asks for.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed.device_mesh


def keeps_type() -> bool:
    """Tell whether weights keep the type that OpenRLHF asks for, instead of float32."""
    return bool(os.environ.get("COEVO_TEST_BF16"))


class _Device(str):
    """A device to move tensors to, which OpenRLHF also formats after "cuda:" without using the result."""

    def __format__(self, spec: str) -> str:
        return "0"


def replace_cuda() -> None:
    """Stand in for the functions of `torch.cuda` that OpenRLHF calls."""

    for name in ("set_device", "synchronize", "empty_cache", "current_stream"):
        # Each its own: torch._dynamo, which vLLM imports, refuses one function under two names.
        setattr(torch.cuda, name, lambda *_, **__: None)
    torch.cuda.current_device = lambda: _Device("cpu")  # type: ignore[assignment, return-value]


def mesh_on_cpu(module: Any) -> None:
    """Make `openrlhf.utils.deepspeed.deepspeed` ask for a mesh on the CPU."""
    module.init_device_mesh = lambda _, *arguments, **options: (
        torch.distributed.device_mesh.init_device_mesh("cpu", *arguments, **options)
    )


def no_shared_memory(module: Any) -> None:
    """Make `deepspeed.comm.torch` work without its shared-memory operator."""
    module.build_shm_op = lambda: None


def config_for_cpu(module: Any) -> None:
    """Change DeepSpeed's settings, optimizer and type, in `openrlhf.utils.deepspeed.deepspeed_utils`."""

    def changed(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        @functools.wraps(function)
        def config(*arguments: Any, **options: Any) -> dict[str, Any]:
            settings = function(*arguments, **options)
            if not keeps_type():
                settings["bf16"]["enabled"] = settings["fp16"]["enabled"] = False
            if "optimizer" in settings:
                settings["optimizer"]["params"]["torch_adam"] = True
            return settings

        return config

    module.get_train_ds_config = changed(module.get_train_ds_config)
    module.get_eval_ds_config = changed(module.get_eval_ds_config)


def eager_attention(module: Any) -> None:
    """Make `openrlhf.models.actor` and `.model` work without flash-attn's kernels, which OpenRLHF requests
    for packed samples."""

    def eager(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def made(*arguments: Any, **options: Any) -> Any:
            return function(*arguments, **{**options, "attn_implementation": "eager"})

        return made

    if hasattr(module, "Actor"):
        module.Actor.__init__ = eager(module.Actor.__init__)
    else:
        module.get_llm_for_sequence_regression = eager(module.get_llm_for_sequence_regression)


def float32_weights(module: Any) -> None:
    """Make `openrlhf.utils.utils` use float32 for all weights."""
    if not keeps_type():
        module.convert_to_torch_dtype = lambda _: torch.float32
