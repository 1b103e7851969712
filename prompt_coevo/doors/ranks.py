"""Talking between the processes of a torch.distributed run. Alone, every call is plain Python."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")

# How long the other ranks wait for rank 0, which may be waiting for a reflection model. They wait in
# a process group of ours, so that the host's own time-out does not count against a slow reply.
_PATIENCE = timedelta(days=1)


class Ranks:
    """The processes of one training run; rank 0 holds the engine."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank = rank
        self.count = count
        self._group: ProcessGroup | None = None

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def gather(self, items: list[T]) -> list[T]:
        """The items of all ranks, rank after rank, on every rank."""
        if self.count == 1:
            return items
        import torch.distributed as dist

        gathered: list[list[T]] = [[] for _ in range(self.count)]
        dist.all_gather_object(gathered, items, group=self._control_group())
        return list(chain.from_iterable(gathered))

    def broadcast(self, value: T | None) -> T:
        """Rank 0's value, on every rank."""
        if self.count == 1:
            return value  # type: ignore[return-value]
        import torch.distributed as dist

        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._control_group())
        return box[0]  # type: ignore[return-value]

    def _control_group(self) -> ProcessGroup:
        # Made at the first call, which all ranks reach together.
        if self._group is None:
            import torch.distributed as dist

            self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)
        return self._group
