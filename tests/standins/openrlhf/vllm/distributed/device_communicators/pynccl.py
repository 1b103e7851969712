"""Replace NCCL by the group's store: OpenRLHF's `broadcast` of each weight goes through it."""

from __future__ import annotations

from typing import Any

import torch

from ..utils import StatelessProcessGroup


class PyNcclCommunicator:
    """Broadcast through the store; calls must come in the same order in all processes."""

    def __init__(self, group: StatelessProcessGroup, device: Any) -> None:
        self._group, self._count = group, 0

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        """Fill `tensor` with that of rank `src`."""
        key, self._count = f"broadcast{self._count}", self._count + 1
        store = self._group.store
        if self._group.rank == src:
            store.set(key, tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
            return
        data = torch.frombuffer(bytearray(store.get(key)), dtype=tensor.dtype)
        tensor.copy_(data.view(tensor.shape))
        if store.add(f"{key}/read", 1) == self._group.world_size - 1:
            store.delete_key(key)
            store.delete_key(f"{key}/read")
