"""Track which weights the vLLM engines have, and when they may get new ones.

OpenRLHF's asynchronous trainer has a lock that blocks broadcasts of weights during generation. Its
generator holds the lock for a whole call of ours, so training would wait for a search; here each batch of a
search takes the lock separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import openrlhf.trainer.ppo_trainer_async as asynchronous
import ray
from ray.actor import ActorHandle

from prompt_coevo.adapters.openrlhf.host import class_of
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.types import PolicyVersion


class CoevoVLLMLock(class_of(asynchronous.VLLMLock)):  # type: ignore[misc]
    """OpenRLHF's lock, which also counts the broadcasts. It runs in its own Ray actor."""

    def __init__(self) -> None:
        super().__init__()
        self._broadcasts = 0

    async def count_broadcast(self) -> None:
        """Count one broadcast. Call it after a broadcast, while holding the lock."""
        self._broadcasts += 1

    async def broadcasts(self) -> int:
        """Return the number of broadcasts. It tells the lock's holder which weights the engines have."""
        return self._broadcasts


class Weights:
    """The weights of the synchronous trainer. They cannot change during a generation, so nothing locks."""

    def __init__(self, engine: Coevolution) -> None:
        self._engine = engine

    def version(self) -> PolicyVersion:
        """Return the version that the engines sample with now, or last sampled with."""
        return self._engine.policy_version

    def begin(self, batches: int) -> None:
        """Start before the first rollout, with the number of batches already handed over for training."""

    def let_go(self) -> AbstractContextManager[None]:
        """Release the weights while the engine decides and asks for rollouts; training can proceed."""
        return nullcontext()

    def batch(self, size: int) -> AbstractContextManager[None]:
        """Fix the weights for one batch of rollouts outside training."""
        return nullcontext()


class LockedWeights(Weights):
    """The weights of the asynchronous trainer, guarded by its lock."""

    def __init__(self, engine: Coevolution, lock: ActorHandle) -> None:
        super().__init__(engine)
        self._lock = lock
        self._is_free = False
        self._before = 0
        """Updates before this start, minus the broadcast that a resumed run begins with."""
        self._step = 0
        self._sampled: Counter[int] = Counter()

    def version(self) -> PolicyVersion:
        return PolicyVersion(self._engine.policy_version.attempt, self._step)

    def begin(self, batches: int) -> None:
        self._before = batches - self._broadcasts()
        self._step = batches

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Release the lock inside. Journal it if rollouts inside ran under different weights."""
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
        if not self._is_free:  # the caller holds the lock, or training is over
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
