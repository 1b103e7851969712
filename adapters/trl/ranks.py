"""Talking between ranks. Alone, every call here is a plain Python operation."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import Any, TypeVar

import torch.distributed as dist
from accelerate import Accelerator

T = TypeVar("T")

# How long the other ranks wait for rank 0, which may be waiting for a reflection model. They wait in
# a process group of ours, so that the host's own time-out does not count against a slow reply.
_PATIENCE = timedelta(days=1)


class Ranks:
    """The processes of one training run; rank 0 holds the engine."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._group: Any = None

    @property
    def is_main(self) -> bool:
        return bool(self._accelerator.is_main_process)

    @property
    def rank(self) -> int:
        return int(self._accelerator.process_index)

    @property
    def count(self) -> int:
        return int(self._accelerator.num_processes)

    def gather(self, items: list[T]) -> list[T]:
        """The items of all ranks, rank after rank, on every rank."""
        if self.count == 1:
            return items
        gathered: list[Any] = [None] * self.count
        dist.all_gather_object(gathered, items, group=self._control_group())
        return list(chain.from_iterable(gathered))

    def broadcast(self, value: T | None) -> T:
        """Rank 0's value, on every rank."""
        if self.count == 1:
            return value  # type: ignore[return-value]
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._control_group())
        return box[0]  # type: ignore[return-value]

    def _control_group(self) -> Any:
        # Made at the first call, which all ranks reach together.
        if self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)
        return self._group
