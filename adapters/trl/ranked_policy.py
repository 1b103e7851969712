"""A policy for trainers that train and sample in the same processes, one per rank."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import numpy as np

from prompt_coevo.adapters.common.policy import AdapterPolicy, RolloutsFailed, sampled_alike
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.trl.ranked_engine import RankedEngine
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import CoevoError, HostError, OutOfStep
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import PolicyVersion, Rollout, RolloutRequest, Sampling


class Scored(NamedTuple):
    """A completion outside training, its reward, and what its agent reported about it."""

    text: str
    reward: float
    reported: str | None


class _Share(NamedTuple):
    """One rank's share of the rollouts: all of them, or what went wrong."""

    scored: list[Scored]
    error: str | None = None
    ends_the_run: bool = False


_Order: TypeAlias = tuple[list[RolloutRequest], Sampling, PolicyVersion]


class RankedPolicy(AdapterPolicy, ABC):
    """Distributes the rollouts that the engine asks for over the ranks.

    The engine, on rank 0, calls `rollout` within `lead`; the other ranks serve it meanwhile. `seed` is that
    of the random numbers of `next_seed`.
    """

    def __init__(self, questions: QuestionIndex, engine: RankedEngine, seed: int) -> None:
        super().__init__(questions)
        self._engine = engine
        self._ranks = engine.ranks
        self._seed = seed
        self._calls = 0

    @abstractmethod
    def sample(
        self, requests: list[RolloutRequest], sampling: Sampling, version: PolicyVersion
    ) -> list[Scored]:
        """Return this rank's completions by the current weights, one per request.

        The caller restores random states afterwards, so every call of the sampler needs a `next_seed`. All
        other training state of the trainer must be left as it was found.

        An error ends the search that asked, on all ranks, but not the run; a CoevoError ends the run.
        Either way this rank must first have taken part in all that the other ranks wait for in the
        trainer. If it cannot, raise OutOfStep.
        """

    def lead(self, action: Callable[[Coevolution], None]) -> None:
        """Run `action` on rank 0, where it may ask for rollouts; the others serve these until it is done.

        Every rank calls this. An error on rank 0 ends all ranks, the others with HostError. Raises
        OutOfStep.
        """
        engine = self._engine.engine
        if engine is None:
            self._serve()
            return
        try:
            with self._ranks.waited_for():
                action(engine)
        except OutOfStep:
            raise  # no rank listens any more
        except BaseException as error:
            self._release(f"{type(error).__name__}: {error}")
            raise
        self._release()

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """Return one scored completion per request, by the current weights. For rank 0.

        Raises RolloutsFailed if a rank failed (with a single rank, its error itself), HostError if a rank
        met an error that ends the run, and KeyError for an unknown question.
        """
        for request in requests:  # before the other ranks begin
            if request.assignment.question_id not in self._questions:
                raise KeyError(request.assignment.question_id)

        def on_all_ranks(same: list[RolloutRequest], sampling: Sampling) -> list[Rollout]:
            order: _Order = (same, sampling, self._engine.policy_version)
            self._ranks.broadcast(order)
            scored = _all_of(self._share(*order))
            return [
                Rollout.scored(one.assignment, of.text, of.reward, order[2], of.reported)
                for one, of in zip(same, scored, strict=False)
            ]

        return sampled_alike(requests, on_all_ranks)

    def next_seed(self, version: PolicyVersion) -> int:
        """Return a seed for one call of the sampler; without it all calls would sample alike."""
        rng = counter_rng(self._seed, "trl/rollouts", version.step, self._calls, self._ranks.rank)
        self._calls += 1
        return int(rng.integers(1 << 62))

    def _serve(self) -> None:
        while True:
            order: _Order | str | None = self._ranks.broadcast(None)
            if isinstance(order, tuple):
                self._share(*order)
                continue
            self._calls = 0
            if order is not None:
                raise HostError(f"rank 0 failed: {order}")
            return

    def _release(self, error: str | None = None) -> None:
        self._calls = 0
        self._ranks.broadcast(error)

    def _share(
        self, requests: list[RolloutRequest], sampling: Sampling, version: PolicyVersion
    ) -> list[_Share]:
        """Sample an equal share of the requests on each rank, and gather the shares of all ranks.

        The last request is repeated to fill up. What a rank raises becomes its share, so that all ranks
        continue together.
        """
        size = math.ceil(len(requests) / self._ranks.count)
        start = self._ranks.rank * size
        mine = [requests[min(i, len(requests) - 1)] for i in range(start, start + size)]
        try:
            with _random_states_kept():
                share = _Share(self.sample(mine, sampling, version))
        except OutOfStep:
            raise
        except Exception as error:
            if self._ranks.count == 1:
                raise
            share = _Share([], f"{type(error).__name__}: {error}", isinstance(error, CoevoError))
        return self._ranks.gather([share])


def _all_of(shares: list[_Share]) -> list[Scored]:
    """Return what all ranks have scored. Raises RolloutsFailed or HostError if one of them failed."""
    failed = [(rank, share) for rank, share in enumerate(shares) if share.error is not None]
    for rank, share in sorted(failed, key=lambda one: not one[1].ends_the_run):
        kind = HostError if share.ends_the_run else RolloutsFailed
        raise kind(f"a policy rollout failed on rank {rank}: {share.error}")
    return [scored for share in shares for scored in share.scored]


@contextmanager
def _random_states_kept() -> Iterator[None]:
    import torch

    python_state, numpy_state = random.getstate(), np.random.get_state()
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
