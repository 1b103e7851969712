"""Rollouts by the current policy outside the training batch."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import PPOTrainer
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn

from prompt_coevo.adapters.common.late_texts import LateTexts
from prompt_coevo.adapters.common.policy import AdapterPolicy, not_all_aborted
from prompt_coevo.adapters.common.success import Success
from prompt_coevo.adapters.verl.generation import Dispatcher
from prompt_coevo.adapters.verl.liveness import Liveness, samplers
from prompt_coevo.adapters.verl.rollouts import (
    SampledBy,
    Tag,
    collect,
    over,
    session,
    tags_of,
    texts_of,
)
from prompt_coevo.types import Assignment, Rollout, RolloutRequest

Planned: TypeAlias = dict[str, list[Assignment]]
"""The assignments of rows, by uid."""
_PARTITION: Final = "val"
_POLL_S: Final = 0.2  # VeRL polls every two seconds, which adds up over the waves of a search
_LIVING_S: Final = 5.0  # how often the samplers are asked for a sign of life


class VerlPolicy(AdapterPolicy):
    """`prompt_coevo.policy.Policy` on one of VeRL's trainers, between two of its steps.

    Requests take the path of the trainer's own validation: rows in a separate partition, through the
    agent loop manager, scored by the reward loop. They touch no training partition, dataloader or metric.
    """

    def __init__(
        self,
        trainer: PPOTrainer,
        dispatcher: Dispatcher,
        sampled_by: SampledBy,
        success: Success,
    ) -> None:
        """Take `sampled_by` to read the policy version from a row's extra fields, and `success` to pick
        the deciding reward."""
        super().__init__(dispatcher.questions)
        self._trainer = trainer
        self._dispatcher = dispatcher
        self._sampled_by = sampled_by
        self._success = success
        self._living = Liveness(lambda: samplers(trainer, dispatcher))

    def check_living(self) -> None:
        """Raise HostError if a rollout server or worker has died. Call it after a failure: it may wait."""
        self._living.check(patiently=True)

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """Return one scored completion per request, sampled by the current weights in one batch.

        VeRL only logs what a rollout or its reward raises; that rollout counts as aborted. Raises
        RolloutsFailed if all are aborted, and HostError if a sampler has died.
        """
        if not requests:
            return []
        sent = self._send(requests)
        rows = self.wait(sent)
        if not self._rewards_come_later:
            return not_all_aborted(self.collect(rows, sent))
        manager = self._trainer.checkpoint_manager
        manager.sleep_replicas()
        try:
            rollouts = self.collect(rows, sent)
        finally:
            manager.update_weights()
        return not_all_aborted(rollouts)

    def wait(self, sent: Planned) -> tq.KVBatchMeta:
        """Wait until everything in `sent` has ended and return its rows.

        Raises HostError if a sampler has died, because VeRL would keep sending to it.
        """
        buffer = self._trainer.replay_buffer
        often = min(getattr(buffer, "poll_interval", _POLL_S), _POLL_S)
        looked = time.monotonic()
        while not sent.keys() <= over(tags := tags_of(_PARTITION)):
            time.sleep(often)
            if time.monotonic() - looked > _LIVING_S:
                self._living.check()
                looked = time.monotonic()
        if any(tags[uid]["status"] == "failure" for uid in sent):
            self.check_living()
        found = {key: tag for key, tag in tags.items() if _uid(key, tag) in sent}
        tq.kv_clear(keys=list(sent), partition_id=_PARTITION)
        return tq.KVBatchMeta(partition_id=_PARTITION, keys=list(found), tags=list(found.values()))

    def collect(self, rows: tq.KVBatchMeta, sent: Planned) -> list[Rollout]:
        """Convert the rows from `wait` to rollouts, in the order in which they were sent.

        A reward model on the rollout's devices needs the replicas asleep.
        """
        keys = rows.keys  # empty if all failed
        try:
            if keys and self._rewards_come_later:
                rows = self._trainer._compute_reward_colocate(rows)
            texts = LateTexts(
                partial(texts_of, partition=_PARTITION, tokenizer=self._trainer.tokenizer)
            )
            rollouts = collect(rows.keys, _PARTITION, sent, texts, self._sampled_by, self._success)
            texts.close()  # fetches all of them: the rows are about to be deleted
            return rollouts
        finally:
            if keys:
                tq.kv_clear(keys=keys, partition_id=_PARTITION)

    def _send(self, requests: Sequence[RolloutRequest]) -> Planned:
        uids = [str(uuid.uuid4()) for _ in requests]
        tag = {"is_prompt": True, "status": "pending", "global_steps": self._trainer.global_steps}
        tq.kv_batch_put(keys=uids, partition_id=_PARTITION, tags=[dict(tag) for _ in uids])
        self._dispatcher.send(self._batch(requests, uids), requests)
        return {uid: [one.assignment] for uid, one in zip(uids, requests, strict=True)}

    def _batch(self, requests: Sequence[RolloutRequest], uids: list[str]) -> TensorDict:
        columns = collate_fn([self._questions.row(one.assignment.question_id) for one in requests])
        columns["uid"] = np.array(uids, dtype=object)
        columns["__rollout_n__"] = np.array([1] * len(uids), dtype=object)
        batch = tu.get_tensordict(columns)
        tu.assign_non_tensor_data(batch, "global_steps", self._trainer.global_steps)
        tu.assign_non_tensor_data(batch, "validate", True)
        return batch

    @property
    def _rewards_come_later(self) -> bool:
        """Check whether a reward model shares the rollout's devices; else rewards come with the rows."""
        return self._trainer.reward_loop_manager.reward_loop_worker_handles is None


def _uid(key: str, tag: Tag) -> str | None:
    """Return the uid of the rollout that a row belongs to, or None for the entry of a rollout itself."""
    return None if tag.get("is_prompt", False) else session(key)[0]
