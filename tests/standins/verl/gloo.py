"""Replace NCCL: VeRL asks for "cpu:gloo,<device>:<backend>", and torch refuses a device named twice."""

from __future__ import annotations

from typing import Any

import torch.distributed


def collapse_backend() -> None:
    """Make `init_process_group` accept "cpu:gloo,cpu:gloo" as "cpu:gloo"."""
    init_process_group = torch.distributed.init_process_group

    def init(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if backend == "cpu:gloo,cpu:gloo":
            backend = "cpu:gloo"
        return init_process_group(backend, *args, **kwargs)

    torch.distributed.init_process_group = init
