"""Run code for several processes as threads in one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from itertools import chain
from typing import Any, TypeVar

from prompt_coevo.adapters.trl.ranks import Ranks

T = TypeVar("T")


class ThreadRanks(Ranks):
    """Run `f(ranks)` on each rank with `ThreadRanks.run(2, f)`; returns the results, rank 0's first."""

    def __init__(self, rank: int, count: int, barrier: threading.Barrier, box: list[Any]) -> None:
        super().__init__(rank, count, timedelta(minutes=10))
        self._barrier = barrier
        self._box = box

    @classmethod
    def run(cls, count: int, action: Callable[[ThreadRanks], T]) -> list[T]:
        barrier, box = threading.Barrier(count, timeout=600), [None] * count
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda n: action(cls(n, count, barrier, box)), range(count)))

    def gather(self, items: list[T]) -> list[T]:
        return list(chain.from_iterable(self._exchange(items)))

    def broadcast(self, value: T | None) -> T:
        received: T = self._exchange(value)[0]
        return received

    def waited_for(self) -> AbstractContextManager[None]:
        return nullcontext()  # threads wait for each other as long as it takes

    def _exchange(self, value: Any) -> list[Any]:
        self._box[self.rank] = value
        self._barrier.wait()
        received = list(self._box)
        self._barrier.wait()
        return received
