from __future__ import annotations

import pytest

from prompt_coevo.adapters.common.policy import (
    AdapterPolicy,
    RolloutsFailed,
    aborted,
    not_all_aborted,
    sampled_alike,
)
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.types import Assignment, PolicyVersion, Rollout, RolloutRequest, Sampling


def test_questions_are_those_of_the_dataset() -> None:
    rows = [{"id": 7, "prompt": "why?"}, {"id": 9, "prompt": "how?"}]
    questions = QuestionIndex(
        rows,
        prompt=lambda row: row["prompt"],
        truth=lambda row: None,
        own_id=lambda row: row["id"],
    )
    policy = AdapterPolicy(questions)
    assert policy.question_ids() == ["7", "9"]
    assert policy.question("9").prompt == "how?"
    with pytest.raises(KeyError):
        policy.question("8")


def test_requests_of_one_temperature_go_together_wherever_they_stand() -> None:
    requests = [
        RolloutRequest(Assignment(name), Sampling(temperature))
        for name, temperature in (("a", 0.0), ("b", None), ("c", 0.0), ("d", None))
    ]
    calls = []

    def sample(same: list[RolloutRequest], sampling: Sampling) -> list[Rollout]:
        calls.append((sampling.temperature, [one.assignment.question_id for one in same]))
        return [aborted(one.assignment, PolicyVersion()) for one in same]

    rollouts = sampled_alike(requests, sample)
    assert [one.assignment.question_id for one in rollouts] == ["a", "b", "c", "d"]
    assert calls == [(0.0, ["a", "c"]), (None, ["b", "d"])]
    with pytest.raises(ValueError):
        sampled_alike(requests, lambda same, sampling: [])


def test_nobody_is_judged_by_an_aborted_rollout() -> None:
    rollout = aborted(Assignment("a"), PolicyVersion(1, 2))
    assert (rollout.status, rollout.fit, rollout.policy_version) == ("aborted", False, (1, 2))


def test_a_call_has_failed_where_every_rollout_was_aborted() -> None:
    version = PolicyVersion()
    gone = aborted(Assignment("a"), version)
    back = Rollout.scored(Assignment("b"), "yes", 1.0, version)
    outage = Rollout.scored(Assignment("c"), "", 0.0, version, "tool_error")
    for some in ([], [gone, back], [gone, outage], [outage]):
        assert not_all_aborted(some) == some
    with pytest.raises(RolloutsFailed, match="none of 2 rollouts came back with a reward"):
        not_all_aborted([gone, gone])
