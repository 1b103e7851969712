"""Which weights the vLLM engines have, and when they may get others.

OpenRLHF's asynchronous trainer has a lock that keeps a broadcast of weights out while something is
generated. Its generator holds it for a whole call of ours, which would have training wait for a search;
here each batch of a search takes it for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import openrlhf.trainer.ppo_trainer_async as asynchronous
import ray

from prompt_coevo.adapters.openrlhf.host import class_of
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.types import PolicyVersion


class CoevoVLLMLock(class_of(asynchronous.VLLMLock)):  # type: ignore[misc]
    """OpenRLHF's lock, which also counts the broadcasts. It runs in a Ray actor of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._broadcasts = 0

    async def count_broadcast(self) -> None:
        """For whoever holds the lock and has broadcast."""
        self._broadcasts += 1

    async def broadcasts(self) -> int:
        """How many there were; who holds the lock knows by it which weights the engines have."""
        return self._broadcasts


class Weights:
    """Those of the synchronous trainer, which broadcasts only between two generations."""

    def __init__(self, engine: Coevolution) -> None:
        self._engine = engine

    def version(self) -> PolicyVersion:
        """What the engines sample by now, or did when they were last asked to."""
        return self._engine.policy_version

    def begin(self, batches: int) -> None:
        """Before the first rollout; so many batches were handed over for training before."""

    def let_go(self) -> AbstractContextManager[None]:
        """While the engine decides, and asks for rollouts; training may go on as far as it can."""
        return nullcontext()

    def batch(self, size: int) -> AbstractContextManager[None]:
        """For one batch of rollouts outside training; inside, weights do not change."""
        return nullcontext()


class LockedWeights(Weights):
    """Those of the asynchronous trainer, by its lock."""

    def __init__(self, engine: Coevolution, lock: Any) -> None:
        super().__init__(engine)
        self._lock = lock
        self._is_free = False
        self._before = 0
        """Updates before this start, less the broadcast that a resumed run begins with."""
        self._step = 0
        self._sampled: Counter[int] = Counter()

    def version(self) -> PolicyVersion:
        return PolicyVersion(self._engine.policy_version.attempt, self._step)

    def begin(self, batches: int) -> None:
        self._before = batches - self._broadcasts()
        self._step = batches

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Rollouts under different weights between two such moments are noted in the journal."""
        ray.get(self._lock.release.remote())
        self._is_free = True
        try:
            yield
        finally:
            self._is_free = False
            self._acquire()
            sampled, self._sampled = self._sampled, Counter()
        if len(sampled) > 1:
            counts = {str(step): sampled[step] for step in sorted(sampled)}
            self._engine.context.note("search_under_several_weights", rollouts=counts)

    @contextmanager
    def batch(self, size: int) -> Iterator[None]:
        if not self._is_free:  # our caller holds the lock, or training is over
            yield
            return
        self._acquire()
        self._sampled[self._step] += size
        try:
            yield
        finally:
            ray.get(self._lock.release.remote())

    def _acquire(self) -> None:
        ray.get(self._lock.acquire.remote())
        self._step = self._before + self._broadcasts()

    def _broadcasts(self) -> int:
        count: int = ray.get(self._lock.broadcasts.remote())
        return count
