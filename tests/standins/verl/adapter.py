"""Replace vLLM's replica and its half in the trainer, which moves the weights."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterable, Iterable
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica
from verl.workers.rollout.utils import ensure_async_iterator

from standins.verl.server import Server


def _server_name(replica_rank: int) -> str:
    return f"hfcpu_server_{replica_rank}"


class ServerAdapter(BaseRollout):  # type: ignore[misc]
    """Pass the weights from VeRL's weight sync to the server, in the actor's process."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        if replica_rank == -1:  # fused with the trainer: as VeRL's own adapters count
            parallel = ("tensor_model", "data", "pipeline_model")
            size = math.prod(getattr(config, f"{name}_parallel_size") for name in parallel)
            replica_rank = int(os.environ["RANK"]) // size
        self._name = _server_name(replica_rank)

    async def resume(self, tags: list[str]) -> None:
        await self._server.wake_up.remote(tags)

    async def release(self) -> None:
        await self._server.sleep.remote()

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]] | AsyncIterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        **_: Any,
    ) -> None:
        if wire_format != "named_tensors":
            raise NotImplementedError(wire_format)
        state = {
            name: tensor.detach().float().cpu().clone()
            async for name, tensor in ensure_async_iterator(weights)
        }
        await self._server.load_weights.remote(state, global_steps)

    @property
    def _server(self) -> Any:
        return ray.get_actor(self._name)


class Replica(RolloutReplica):  # type: ignore[misc]
    """Run one server as a Ray actor that takes no resources."""

    async def launch_servers(self) -> None:
        actor = ray.remote(Server).options(
            name=_server_name(self.replica_rank), num_cpus=0, max_concurrency=self.max_concurrency
        )
        self._server_handle = actor.remote(self.config, self.model_config, self.replica_rank)
        self._server_address = _server_name(self.replica_rank)
        self.servers = [self._server_handle]
