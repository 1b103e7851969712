"""The policy of the door, without a trainer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from transfer_queue import KVBatchMeta

from prompt_coevo.adapters.verl import policy
from prompt_coevo.doors.policy import RolloutsFailed
from prompt_coevo.types import Assignment, PolicyVersion, RolloutRequest, Sampling


@pytest.mark.parametrize("colocated", [False, True])
def test_rollouts_that_all_failed_are_aborted_and_end_nothing(
    monkeypatch: pytest.MonkeyPatch, colocated: bool
) -> None:
    """Where every rollout fails there are no rows, and TransferQueue refuses to clear none."""

    def refused(*_: Any, **__: Any) -> None:
        raise ValueError("Received an empty list as keys.")

    monkeypatch.setattr(policy.tq, "kv_clear", refused)
    trainer = SimpleNamespace(
        tokenizer=None,
        reward_loop_manager=SimpleNamespace(
            reward_loop_worker_handles=None if colocated else ["a worker"]
        ),
        _compute_reward_colocate=refused,
    )
    dispatcher = SimpleNamespace(
        questions=None, engine=SimpleNamespace(policy_version=PolicyVersion(0, 3))
    )
    verl_policy = policy.VerlPolicy(trainer, dispatcher)
    rider = Assignment("q1", round=-1)
    nothing = KVBatchMeta(partition_id="val", keys=[], tags=[])
    (found,) = verl_policy.collect(nothing, {"uid": [rider]})
    assert (found.assignment, found.status) == (rider, "aborted")
    assert found.policy_version == PolicyVersion(0, 3)


def test_for_no_requests_nobody_is_woken() -> None:
    verl_policy = policy.VerlPolicy(SimpleNamespace(), SimpleNamespace(questions=None))
    assert verl_policy.rollout([]) == []
    assert verl_policy.collect(verl_policy.wait(verl_policy.send([])), {}) == []


class Asleep(Exception):
    """The reward model cannot answer."""


@pytest.mark.parametrize("raises", [False, True])
def test_rollouts_none_of_which_came_back_fail_and_leave_the_replicas_awake(
    monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    """A search ends with it; what was sampled is cleared, and VeRL goes on."""
    done: list[Any] = []

    def reward(rows: KVBatchMeta) -> KVBatchMeta:
        if raises:
            raise Asleep
        return KVBatchMeta(partition_id="val", keys=[], tags=[])

    trainer = SimpleNamespace(
        tokenizer=None,
        reward_loop_manager=SimpleNamespace(reward_loop_worker_handles=None),
        _compute_reward_colocate=reward,
        checkpoint_manager=SimpleNamespace(
            sleep_replicas=lambda: done.append("asleep"),
            update_weights=lambda: done.append("awake"),
        ),
    )
    dispatcher = SimpleNamespace(
        questions=None, engine=SimpleNamespace(policy_version=PolicyVersion(0, 3))
    )
    verl_policy = policy.VerlPolicy(trainer, dispatcher)
    monkeypatch.setattr(policy.tq, "kv_clear", lambda keys, partition_id: done.append(keys))
    rows = KVBatchMeta(partition_id="val", keys=["uid_0_0"], tags=[{}])
    monkeypatch.setattr(verl_policy, "send", lambda _: {"uid": [Assignment("q1")]})
    monkeypatch.setattr(verl_policy, "wait", lambda _: rows)
    with pytest.raises(Asleep if raises else RolloutsFailed):
        verl_policy.rollout([RolloutRequest(Assignment("q1"), Sampling())])
    assert done == ["asleep", ["uid_0_0"], "awake"]
