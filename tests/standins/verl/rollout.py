"""Replace vLLM in VeRL: `rollout.name=hfcpu`, a replica and the trainer's side of it; for reward models
also SGLang, which VeRL knows by its name."""

from __future__ import annotations

from typing import Any

_NAME = "hfcpu"
_JUDGE = "sglang"


def register_adapter(module: Any) -> None:
    """Name the trainer's side in `verl.workers.rollout.base`."""
    for name in (_NAME, _JUDGE):
        module._ROLLOUT_REGISTRY[(name, "async")] = "standins.verl.adapter.ServerAdapter"


def register_replica(module: Any) -> None:
    """Name the replica in `verl.workers.rollout.replica`."""

    def load() -> type:
        from standins.verl.adapter import Replica

        return Replica

    def load_judge() -> type:
        from standins.verl.reward_model import JudgeReplica

        return JudgeReplica

    module.RolloutReplicaRegistry.register(_NAME, load)
    module.RolloutReplicaRegistry.register(_JUDGE, load_judge)
