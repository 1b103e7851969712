"""The policy of the door, without a trainer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from transfer_queue import KVBatchMeta

from prompt_coevo.adapters.verl import policy
from prompt_coevo.types import Assignment, PolicyVersion


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
