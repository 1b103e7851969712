"""The current policy, for rollouts outside the training batch."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import numpy as np
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn

from prompt_coevo.adapters.verl.generation import Dispatcher
from prompt_coevo.adapters.verl.harvest import collect
from prompt_coevo.doors.patching import swapped
from prompt_coevo.doors.policy import DoorPolicy
from prompt_coevo.types import Rollout, RolloutRequest

_PARTITION: Final = "val"
_POLL_S: Final = 0.2  # VeRL looks every two seconds, which adds up over the waves of a search


class VerlPolicy(DoorPolicy):
    """`prompt_coevo.policy.Policy` over a synchronous trainer, between two of its steps.

    The way of the trainer's own validation: rows of a partition of their own, through the agent loop
    manager, scored by the reward loop; the training partition, dataloader and metrics see nothing.
    """

    def __init__(self, trainer: PPOTrainerSync, dispatcher: Dispatcher) -> None:
        super().__init__(dispatcher.questions, lambda: dispatcher.engine.policy_version)
        self._trainer = trainer
        self._dispatcher = dispatcher

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """One scored completion per request, by the current weights, all in one batch."""
        if not requests:
            return []
        trainer = self._trainer
        uids = [str(uuid.uuid4()) for _ in requests]
        batch = self._batch(requests, uids)
        tag = {"is_prompt": True, "status": "pending", "global_steps": trainer.global_steps}
        tq.kv_batch_put(keys=uids, partition_id=_PARTITION, tags=[dict(tag) for _ in uids])
        self._dispatcher.send(batch, requests)
        rows = self._scored(self._waited_for(len(uids)))
        planned = {uid: [one.assignment] for uid, one in zip(uids, requests, strict=True)}
        rollouts = collect(rows.keys, _PARTITION, planned, trainer.tokenizer, self._version())
        tq.kv_clear(keys=rows.keys, partition_id=_PARTITION)
        return rollouts

    def _batch(self, requests: Sequence[RolloutRequest], uids: list[str]) -> TensorDict:
        columns = collate_fn([self._questions.row(one.assignment.question_id) for one in requests])
        columns["uid"] = np.array(uids, dtype=object)
        columns["__rollout_n__"] = np.array([1] * len(uids), dtype=object)
        batch = tu.get_tensordict(columns)
        tu.assign_non_tensor_data(batch, "global_steps", self._trainer.global_steps)
        tu.assign_non_tensor_data(batch, "validate", True)
        return batch

    def _waited_for(self, count: int) -> tq.KVBatchMeta:
        step, buffer = self._trainer.global_steps, self._trainer.replay_buffer
        often = min(getattr(buffer, "poll_interval", _POLL_S), _POLL_S)
        with swapped(buffer, "poll_interval", often):
            return buffer.sample(global_steps=step, partition_id=_PARTITION, batch_size=count)[0]

    def _scored(self, rows: tq.KVBatchMeta) -> tq.KVBatchMeta:
        """Rewards come with the rows, unless a reward model shares the rollout's devices."""
        trainer = self._trainer
        if trainer.reward_loop_manager.reward_loop_worker_handles is not None:
            return rows
        trainer.checkpoint_manager.sleep_replicas()
        rows = trainer._compute_reward_colocate(rows)
        trainer.checkpoint_manager.update_weights()
        return rows
