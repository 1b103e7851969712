"""Replace NCCL between trainer and rollout on separate devices: the weights go through a Ray actor.

For `actor_rollout_ref.rollout.checkpoint_engine.backend=by_ray`. Also copies the weights that VeRL keeps
"on the CPU", which would otherwise be the weights themselves here.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterable
from typing import Any

import ray
import torch

_MAILBOX = "hfcpu_weights"


class Mailbox:
    """Hold the weights of one version."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._state: dict[str, torch.Tensor] = {}

    def put(self, step: int | None, state: dict[str, torch.Tensor]) -> None:
        self._step, self._state = step, state

    def get(self, step: int | None) -> dict[str, torch.Tensor] | None:
        """Return the weights, or None before this version is there."""
        return self._state if self._state and step == self._step else None


@functools.cache  # Ray ends an actor when its first handle is gone, even if others have found it by name
def _mailbox() -> Any:
    actor = ray.remote(Mailbox)
    return actor.options(name=_MAILBOX, get_if_exists=True, num_cpus=0, lifetime=None).remote()


def register(module: Any) -> None:
    """Register the engine in `verl.checkpoint_engine.base`."""

    @module.CheckpointEngineRegistry.register("by_ray")
    class ByRay(module.CheckpointEngine):  # type: ignore[misc]
        def __init__(self, bucket_size: int, is_master: bool = False) -> None:
            self._is_master = is_master

        def prepare(self) -> dict[str, Any]:
            return {}

        @classmethod
        def build_topology(
            cls, actors: int, rollouts: int, metadata: list[Any]
        ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
            return {"rank": [*range(actors)]}, {"rank": [*range(rollouts)]}

        def init_process_group(self, rank: int) -> None:
            self._mail = _mailbox()

        def finalize(self) -> None: ...

        async def send_weights(
            self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None
        ) -> None:
            state = {name: tensor.detach().float().cpu().clone() for name, tensor in weights}
            if self._is_master:
                await self._mail.put.remote(global_steps, state)

        async def receive_weights(
            self, global_steps: int | None = None
        ) -> AsyncIterator[tuple[str, torch.Tensor]]:
            while (state := await self._mail.get.remote(global_steps)) is None:
                await asyncio.sleep(0.01)
            for name, tensor in state.items():
                yield name, tensor


def copy_what_is_kept(module: Any) -> None:
    """Make `fsdp2_sharded_save_to_cpu` of `verl.utils.fsdp_utils` copy, as it does from a GPU."""
    save = module.fsdp2_sharded_save_to_cpu

    @functools.wraps(save)
    def saved(model: Any) -> Any:
        state, spec = save(model)
        return {name: (tensor.clone(), own) for name, (tensor, own) in state.items()}, spec

    module.fsdp2_sharded_save_to_cpu = saved
