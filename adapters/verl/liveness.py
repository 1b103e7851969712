"""Whether what samples is still there: VeRL's rollout servers and its agent loop workers.

VeRL counts a rollout whose server has died as one that failed, and waits for ever for those of a worker
that has died.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, RayActorError
from verl.trainer.ppo.v1 import PPOTrainer

from prompt_coevo.errors import HostError

_ANSWER_S: Final = 30.0
"""How long an answer is waited for where something has failed: a living actor answers at once, unless its
machine is very busy, and then it counts as living."""


class Liveness:
    """Asks Ray actors whether they live. `actors` gives those that there are now."""

    def __init__(self, actors: Callable[[], Collection[ActorHandle]]) -> None:
        self._actors = actors
        self._asked: dict[ActorHandle, ray.ObjectRef[Any]] = {}

    def check(self, *, patiently: bool = False) -> None:
        """Raise HostError if one of them is known to have died; `patiently` waits for their answers."""
        asked = {
            actor: self._asked.get(actor) or actor.__ray_ready__.remote()
            for actor in self._actors()
        }
        if not asked:
            return
        references = list(asked.values())
        wait_s = _ANSWER_S if patiently else 0.0
        answered, _ = ray.wait(references, num_returns=len(references), timeout=wait_s)
        self._asked = {
            one: reference for one, reference in asked.items() if reference not in answered
        }
        for reference in answered:
            _raise_if_died(reference)


def _raise_if_died(reference: ray.ObjectRef[Any]) -> None:
    try:
        ray.get(reference)
    except ActorDiedError as error:
        raise HostError(
            "a rollout server or an agent loop worker of VeRL's died (its log says why, or its node's that "
            "it ran out of memory), and nothing can be sampled by it; start the command again, which goes "
            "on from the last checkpoint"
        ) from error
    except RayActorError:  # out of reach, perhaps for a moment
        return


def samplers(trainer: PPOTrainer, dispatcher: Any) -> list[ActorHandle]:
    """The rollout servers and agent loop workers that there are now.

    A trainer with devices of its own for the rollout has a second set of servers, and an agent loop manager
    that is not VeRL's may have no workers.
    """
    managers = [trainer.llm_server_manager]
    if hasattr(trainer, "standalone_server_manager"):
        managers.append(trainer.standalone_server_manager)
    replicas = [replica for manager in managers for replica in manager.get_replicas()]
    servers = [server for replica in replicas for server in replica.servers]
    return [*servers, *getattr(dispatcher, "agent_loop_workers", ())]
