"""Replace the accelerator: a platform "cpu" for `VERL_PLATFORM=cpu`.

Ray hands out GPUs that do not exist (`ray_init.num_gpus`), so the resource keeps the name "GPU".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

_NOTHING = ("empty_cache", "ipc_collect", "reset_peak_memory_stats", "set_rng_state")
_ZERO = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")


class _CpuModule(ModuleType):
    """Provide `torch.cpu` and the memory calls that VeRL makes on a device's module."""

    def __getattr__(self, name: str) -> Any:
        if name in _NOTHING:
            return lambda *_, **__: None
        if name in _ZERO:
            return lambda *_, **__: 0
        if name == "mem_get_info":
            return lambda *_, **__: (1 << 30, 1 << 30)
        if name == "get_device_name":
            return lambda *_, **__: "CPU"
        if name in ("get_rng_state", "manual_seed"):
            return getattr(torch, name)
        if name == "manual_seed_all":
            return torch.manual_seed
        return getattr(torch.cpu, name)


def register() -> None:
    """Make the platform known to VeRL."""
    from verl.plugin.platform.platform_base import PlatformBase
    from verl.plugin.platform.platform_manager import PlatformRegistry

    @PlatformRegistry.register(platform="cpu")
    class PlatformCPU(PlatformBase):  # type: ignore[misc]
        device_name = "cpu"
        vendor_name = "cpu"
        device_module = _CpuModule("cpu_device")

        def is_available(self) -> bool:
            return True

        def current_device(self) -> torch.device:
            return torch.device("cpu")

        def device_count(self) -> int:
            return 1

        def set_device(self, device_index: int) -> None: ...

        def synchronize(self, device_index: int | None = None) -> None: ...

        def manual_seed(self, seed: int) -> None:
            torch.manual_seed(seed)

        manual_seed_all = manual_seed

        def set_allocator_settings(self, settings: str) -> None: ...

        def empty_cache(self) -> None: ...

        def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
            return None, None

        def communication_backend_name(self) -> str:
            return "gloo"

        def visible_devices_envvar(self) -> str:
            return "CUDA_VISIBLE_DEVICES"

        @contextmanager
        def nvtx_range(self, msg: str) -> Iterator[None]:
            yield

        def profiler_start(self) -> None: ...

        def profiler_stop(self) -> None: ...

        def ray_resource_name(self) -> str:
            return "GPU"

        def ray_noset_envvars(self) -> list[str]:
            return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

        def is_ipc_supported(self) -> bool:
            return False

        def cudart(self) -> None: ...
