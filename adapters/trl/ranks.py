"""Communication between the processes of a torch.distributed run; with one process, plain Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from prompt_coevo.errors import HostError, OutOfStep

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")

_LONGEST_SILENCE_S: Final = 10.0
_STILL_THERE: Final = "prompt_coevo: rank 0 is still there"


class Ranks:
    """The processes of one training run; rank 0 holds the engine.

    They communicate in a process group of their own, where no rank waits longer than `patience` for
    another one. `patience_name` is the trainer's name for it.
    """

    def __init__(
        self, rank: int, count: int, patience: timedelta, patience_name: str = "the time-out"
    ) -> None:
        self.rank = rank
        self.count = count
        self._patience = patience
        self._patience_name = patience_name
        self._group: ProcessGroup | None = None
        self._speaking = threading.Lock()
        self._awaited = False
        """True while the other ranks wait for rank 0's next message."""

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def gather(self, items: list[T]) -> list[T]:
        """Return the items of all ranks, rank after rank, on every rank. Raises OutOfStep."""
        if self.count == 1:
            return items
        import torch.distributed as dist

        gathered: list[list[T]] = [[] for _ in range(self.count)]
        group = self._control_group()
        with self._speaking:
            self._in_time(lambda: dist.all_gather_object(gathered, items, group=group))
            self._awaited = True
        return list(chain.from_iterable(gathered))

    def check_alike(self, values: Mapping[str, object]) -> None:
        """Raise HostError, on every rank, if the ranks have other values under these names.

        Raises OutOfStep, too.
        """
        there = self.gather([values])
        for rank, other in enumerate(there):
            if names := sorted(name for name in there[0] if other.get(name) != there[0][name]):
                raise HostError(
                    f"rank {rank} has other settings than rank 0 ({', '.join(names)}); give all ranks the "
                    "same, PROMPT_COEVO_ variables on every node too"
                )

    def broadcast(self, value: T | None) -> T:
        """Return rank 0's value, on every rank. Raises OutOfStep."""
        if self.count == 1:
            return value  # type: ignore[return-value]
        group = self._control_group()
        with self._speaking:
            self._awaited = False
            while (heard := self._said(value, group)) == _STILL_THERE:
                pass
        return heard

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Let rank 0 take any time inside, for a reflection model for example. The other ranks wait in
        `broadcast` and hear from time to time that it is alive."""
        if self.count == 1:
            yield
            return
        self._control_group()  # the other ranks create theirs before they wait
        over = threading.Event()
        self._awaited = True
        threading.Thread(target=self._keep_in_touch, args=(over,), daemon=True).start()
        try:
            yield
        finally:
            over.set()
            with self._speaking:
                self._awaited = False

    def _keep_in_touch(self, over: threading.Event) -> None:
        silence = min(self._patience.total_seconds() / 4, _LONGEST_SILENCE_S)
        group = self._control_group()
        while not over.wait(silence):
            with self._speaking:
                # While all ranks sample, no rank listens, and each must answer within `patience`.
                if self._awaited and not over.is_set():
                    try:
                        self._said(_STILL_THERE, group)
                    except OutOfStep:
                        return  # rank 0's next message raises it too

    def _said(self, value: T | None, group: ProcessGroup) -> T:
        import torch.distributed as dist

        box = [value]
        self._in_time(lambda: dist.broadcast_object_list(box, src=0, group=group))
        return box[0]  # type: ignore[return-value]

    def _in_time(self, talk: Callable[[], None]) -> None:
        try:
            talk()
        except RuntimeError as error:
            others = "another rank" if self.is_main or self.count > 2 else "rank 0"
            raise OutOfStep(
                f"rank {self.rank} has lost {others}, which died, or hangs: "
                f"{self._patience_name} = {self._patience.total_seconds():g} s is how long a rank is "
                f"waited for; see the last lines of its log ({error})"
            ) from error

    def _control_group(self) -> ProcessGroup:
        # Created at the first call, which all ranks reach together.
        if self._group is None:
            import torch.distributed as dist

            self._group = dist.new_group(backend="gloo", timeout=self._patience)
        return self._group
