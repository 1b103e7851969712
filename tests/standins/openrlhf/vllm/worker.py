"""Replace vLLM's worker with OpenRLHF's extension of it, `trainer/ray/vllm_worker_wrap.py`."""

from __future__ import annotations

from typing import Any

import torch

from .distributed.device_communicators.pynccl import PyNcclCommunicator
from .distributed.utils import StatelessProcessGroup


class Worker:
    """Receive the weights that the actor broadcasts one after the other."""

    def __init__(self, model: Any) -> None:
        self._weights = dict(model.named_parameters())
        self._missing = set(self._weights)
        self._group: Any = None

    def init_process_group(
        self,
        master_address: str,
        master_port: int,
        rank_offset: int,
        world_size: int,
        group_name: str,
        backend: str = "nccl",
        use_ray: bool = False,
    ) -> None:
        """Join the group that `openrlhf.utils.distributed_util.stateless_init_process_group` opens."""
        if use_ray:
            raise NotImplementedError("--vllm.sync_with_ray")
        group = StatelessProcessGroup.create(master_address, master_port, rank_offset, world_size)
        self._group = PyNcclCommunicator(group, "cpu")

    def receive(self, name: str, dtype: torch.dtype, shape: torch.Size, last: bool) -> torch.Tensor:
        """Receive one weight. Raises RuntimeError if it is the last and some are missing."""
        weight = torch.empty(shape, dtype=dtype)
        self._group.broadcast(weight, src=0)
        self._missing.discard(name)
        if last:
            if self._missing:
                raise RuntimeError(f"no weights came for {sorted(self._missing)}")
            self._missing = set(self._weights)
        return weight

    @torch.no_grad()
    def load(self, name: str, weight: torch.Tensor) -> None:
        self._weights[name].copy_(weight)

    def checksum(self) -> float:
        return sum(float(tensor.detach().abs().sum()) for tensor in self._weights.values())
