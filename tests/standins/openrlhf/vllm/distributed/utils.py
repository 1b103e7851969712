"""Replace `vllm.distributed.utils`: a group of processes outside of torch's default group."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from torch.distributed import TCPStore

_TIMEOUT = timedelta(seconds=120)


@dataclass(frozen=True)
class StatelessProcessGroup:
    """The members of a group, and the store that rank 0 keeps for all."""

    rank: int
    world_size: int
    store: TCPStore

    @classmethod
    def create(cls, host: str, port: int, rank: int, world_size: int) -> Self:
        store = TCPStore(host, port, world_size, rank == 0, _TIMEOUT, wait_for_workers=False)
        return cls(rank, world_size, store)
