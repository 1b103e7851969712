"""Check that VeRL's rollout servers and agent loop workers are alive.

VeRL counts a rollout whose server has died as failed, and waits forever for the rollouts of a worker that
has died.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, RayActorError
from verl.trainer.ppo.v1 import PPOTrainer

from prompt_coevo.adapters.verl.generation import Dispatcher
from prompt_coevo.errors import HostError

_ANSWER_S: Final = 30.0
"""How long to wait for an answer after a failure. A living actor answers at once unless its machine is very
busy; one that does not answer counts as living."""


class Liveness:
    """Asks Ray actors whether they are alive. `actors` returns the current ones."""

    def __init__(self, actors: Callable[[], Collection[ActorHandle]]) -> None:
        self._actors = actors
        self._asked: dict[ActorHandle, ray.ObjectRef[bool]] = {}

    def check(self, *, patiently: bool = False) -> None:
        """Raise HostError if an actor is known to have died; `patiently` waits for the answers."""
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


def _raise_if_died(reference: ray.ObjectRef[bool]) -> None:
    try:
        ray.get(reference)
    except ActorDiedError as error:
        raise HostError(
            "a rollout server or an agent loop worker of VeRL died (its log says why, or its node's log "
            "that it ran out of memory), so sampling cannot continue; start the command again to resume "
            "from the last checkpoint"
        ) from error
    except RayActorError:  # unreachable, perhaps only for a moment
        return


def samplers(trainer: PPOTrainer, dispatcher: Dispatcher) -> list[ActorHandle]:
    """Return the current rollout servers and agent loop workers.

    A trainer with separate devices for the rollout has a second set of servers, and an agent loop manager
    that is not VeRL's may have no workers.
    """
    managers = [trainer.llm_server_manager]
    if hasattr(trainer, "standalone_server_manager"):
        managers.append(trainer.standalone_server_manager)
    replicas = [replica for manager in managers for replica in manager.get_replicas()]
    servers = [server for replica in replicas for server in replica.servers]
    return [*servers, *getattr(dispatcher, "agent_loop_workers", ())]
