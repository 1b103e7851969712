"""Check the adapter's policy without a trainer."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from transfer_queue import KVBatchMeta

from prompt_coevo.adapters.common.late_texts import LateTexts
from prompt_coevo.adapters.common.policy import RolloutsFailed
from prompt_coevo.adapters.common.success import Success
from prompt_coevo.adapters.verl import policy, rollouts
from prompt_coevo.adapters.verl.distill import COLUMN
from prompt_coevo.settings.success import SuccessSettings
from prompt_coevo.types import Assignment, PolicyVersion, RolloutRequest, Sampling

OWN = Success(SuccessSettings(), "there")


def sampled_by(_: Mapping[str, Any]) -> PolicyVersion:
    return PolicyVersion(0, 3)


@pytest.mark.parametrize("colocated", [False, True])
def test_rollouts_that_all_failed_are_aborted_and_end_nothing(
    monkeypatch: pytest.MonkeyPatch, colocated: bool
) -> None:
    """Without any rows there is nothing to clear, and TransferQueue refuses to clear nothing."""

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
    dispatcher = SimpleNamespace(questions=None)
    verl_policy = policy.VerlPolicy(trainer, dispatcher, sampled_by, OWN)
    asked = Assignment("q1")
    nothing = KVBatchMeta(partition_id="val", keys=[], tags=[])
    (found,) = verl_policy.collect(nothing, {"uid": [asked]})
    assert (found.assignment, found.status) == (asked, "aborted")
    assert found.policy_version == PolicyVersion(0, 3)


def test_for_no_requests_nobody_is_woken() -> None:
    verl_policy = policy.VerlPolicy(
        SimpleNamespace(), SimpleNamespace(questions=None), sampled_by, OWN
    )
    assert verl_policy.rollout([]) == []


class Asleep(Exception):
    """Raised when the reward model is asleep."""


@pytest.mark.parametrize("raises", [False, True])
def test_rollouts_none_of_which_came_back_fail_and_leave_the_replicas_awake(
    monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    """The search ends; what was sampled is cleared, and VeRL continues."""
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
    dispatcher = SimpleNamespace(questions=None)
    verl_policy = policy.VerlPolicy(trainer, dispatcher, sampled_by, OWN)
    monkeypatch.setattr(policy.tq, "kv_clear", lambda keys, partition_id: done.append(keys))
    rows = KVBatchMeta(partition_id="val", keys=["uid_0_0"], tags=[{}])
    monkeypatch.setattr(verl_policy, "_send", lambda _: {"uid": [Assignment("q1")]})
    monkeypatch.setattr(verl_policy, "wait", lambda _: rows)
    with pytest.raises(Asleep if raises else RolloutsFailed):
        verl_policy.rollout([RolloutRequest(Assignment("q1"), Sampling())])
    assert done == ["asleep", ["uid_0_0"], "awake"]


class Partition:
    """Stand in for TransferQueue: the marks and rows of the partition that VeRL validates in."""

    def __init__(self, **statuses: str) -> None:
        self.tags: dict[str, dict[str, Any]] = {}
        for uid, status in statuses.items():
            self.tags[uid] = {"is_prompt": True, "status": status}
            if status == "finished":
                self.tags[f"{uid}_0_0"] = {"status": "success"}
        self.cleared: list[str] = []

    def kv_list(self, partition_id: str) -> dict[str, Any]:
        return {partition_id: dict(self.tags)}

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        self.cleared += keys
        for key in keys:
            del self.tags[key]


def test_rollouts_of_others_in_the_same_partition_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = Partition(mine="finished", failed="failure", late="running", other="finished")
    for module in (rollouts, policy):
        monkeypatch.setattr(module, "tq", partition)
    monkeypatch.setattr(
        partition, "KVBatchMeta", lambda **fields: SimpleNamespace(**fields), raising=False
    )
    trainer = SimpleNamespace(replay_buffer=SimpleNamespace(poll_interval=0.01))
    verl_policy = policy.VerlPolicy(trainer, SimpleNamespace(questions=None), sampled_by, OWN)
    looked: list[str] = []
    monkeypatch.setattr(verl_policy, "check_living", lambda: looked.append("who lives?"))
    rows = verl_policy.wait({name: [Assignment("q1")] for name in ("mine", "failed")})
    assert rows.keys == ["mine_0_0"]
    assert partition.cleared == ["mine", "failed"]
    assert looked == ["who lives?"]


@pytest.mark.parametrize(
    ("name", "extra", "found"),
    [
        (None, {"acc": 1.0}, 0.25),
        ("reward", {"acc": 1.0}, 0.25),
        ("reward", None, 0.25),
        ("acc", {"acc": 1.0}, 1.0),
        ("reward", {"reward": 0.75}, 0.75),
    ],
)
def test_which_reward_decides(name: str | None, extra: Any, found: float) -> None:
    fields = {COLUMN: [0, 0, 0], rollouts.BEGAN_WITH: 1, "reward_extra_info": extra}
    success = Success(SuccessSettings(reward=name), "there")
    texts = LateTexts(lambda names: [*names])
    row = ("key", 0.25, fields)
    made = rollouts._rollout(Assignment("q1"), row, texts, sampled_by, success)  # type: ignore[arg-type]
    assert made.reward == found
