"""Replaces vLLM as VeRL knows it: `rollout.name=hfcpu`, a replica and the trainer's side of it."""

from __future__ import annotations

from typing import Any

_NAME = "hfcpu"


def register_adapter(module: Any) -> None:
    """Name the trainer's side in `verl.workers.rollout.base`."""
    module._ROLLOUT_REGISTRY[(_NAME, "async")] = "standins.verl.adapter.ServerAdapter"


def register_replica(module: Any) -> None:
    """Name the replica in `verl.workers.rollout.replica`."""

    def load() -> type:
        from standins.verl.adapter import Replica

        return Replica

    module.RolloutReplicaRegistry.register(_NAME, load)
