"""Rollouts that ride along with training's: numbered, late, lost, twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from prompt_coevo import Coevolution, hookimpl
from prompt_coevo.errors import HostError, PluginError
from prompt_coevo.types import (
    Assignment,
    Candidate,
    PolicyVersion,
    Rollout,
    RolloutRequest,
    Sampling,
)


class Wants:
    """Asks for `count` riders whenever it may, and notes which came back."""

    def __init__(self, count: int, name: str = "z") -> None:
        self.count, self.name = count, name
        self.back: list[tuple[int, int, str]] = []

    @hookimpl
    def coevo_wanted(self, capacity: int) -> Sequence[RolloutRequest] | None:
        template = Candidate(self.name, "template")
        return [
            RolloutRequest(Assignment(f"q{number}", template=template), Sampling())
            for number in range(self.count)
        ]

    @hookimpl
    def coevo_observe_riders(self, rollouts: Sequence[Rollout]) -> None:
        self.back += [
            (one.assignment.round, one.assignment.member, one.assignment.question_id)
            for one in rollouts
        ]


@pytest.fixture
def engine_with(make_engine: Any) -> Any:
    return lambda **plugins: make_engine(algorithms=(), plugins=plugins, reflection={})


def done(requests: Sequence[RolloutRequest]) -> list[Rollout]:
    return [Rollout(one.assignment, "", 1.0) for one in requests]


def test_riders_are_numbered_apart_from_rounds(engine_with: Any) -> None:
    engine: Coevolution = engine_with(wants=Wants(3))
    first, second = engine.wanted(10), engine.wanted(10)
    assert [(one.assignment.round, one.assignment.member) for one in first] == [
        (-1, 0),
        (-1, 1),
        (-1, 2),
    ]
    assert {one.assignment.round for one in second} == {-2}


def test_they_come_back_in_any_order_late_with_others_or_never(engine_with: Any) -> None:
    wants = Wants(3)
    engine: Coevolution = engine_with(wants=wants)
    first = engine.wanted(10)
    plan = engine.plan(["q0"], 2)
    second = engine.wanted(10)
    rollouts = [Rollout(one, "", 0.0) for one in plan]
    engine.observe([*done(second[::-1]), *rollouts, *done(first[2:])])
    assert wants.back == [(-1, 2, "q2"), (-2, 0, "q0"), (-2, 1, "q1"), (-2, 2, "q2")]


def test_what_is_not_out_is_left_out(engine_with: Any) -> None:
    wants = Wants(1)
    engine: Coevolution = engine_with(wants=wants)
    [rider] = engine.wanted(4)
    engine.observe(done([rider]))
    engine.observe(done([rider]))  # twice
    engine.observe([Rollout(Assignment("q9", round=-7), "", 1.0)])  # never sent
    other = Assignment("q5", round=-1)
    engine.wanted(4)
    engine.observe([Rollout(other, "", 1.0)])
    assert wants.back == [(-1, 0, "q0")]


def test_the_capacity_is_shared_and_never_exceeded(engine_with: Any) -> None:
    engine: Coevolution = engine_with(one=Wants(3, "a"), other=Wants(3, "b"))
    with pytest.raises(PluginError, match="a list of at most 2 RolloutRequests"):
        engine.wanted(4)
    assert len(engine.wanted(1_000_000)) == 6
    assert engine.wanted(0) == []
    with pytest.raises(HostError, match=r"wanted\(-1\): the capacity for riders cannot be below 0"):
        engine.wanted(-1)


def test_nothing_is_wanted_where_nobody_asks(engine_with: Any) -> None:
    assert engine_with().wanted(100) == []


def test_a_resumed_run_knows_its_riders_from_those_of_before(engine_with: Any) -> None:
    """Also from those that were sent after the checkpoint, with equal assignments."""
    wants = Wants(1)
    engine: Coevolution = engine_with(wants=wants)
    [before] = engine.wanted(4)
    state = engine.state_dict()
    [lost] = engine.wanted(4)
    again: Coevolution = engine_with(wants=wants)
    again.load_state_dict(state)
    [new] = again.wanted(4)
    assert new.assignment.round == -1_000_001
    now = again.policy_version
    again.observe([Rollout(one.assignment, "", 1.0, "ok", now) for one in (before, lost, new)])
    assert wants.back == [(-1_000_001, 0, "q0")]


def test_what_another_attempts_weights_wrote_is_left_out(engine_with: Any) -> None:
    wants = Wants(1)
    engine: Coevolution = engine_with(wants=wants)
    engine.step_end(None)  # type: ignore[arg-type]
    [rider] = engine.wanted(4)
    for version in (PolicyVersion(1, 1), PolicyVersion(-1, 1)):
        engine.observe([Rollout(rider.assignment, "", 1.0, "ok", version)])
    assert wants.back == []
    engine.observe([Rollout(rider.assignment, "", 1.0, "ok", engine.policy_version)])
    assert wants.back == [(-1, 0, "q0")]


@pytest.mark.parametrize("answer", [[1], "ab", 5])
def test_an_answer_that_is_no_list_of_requests_is_refused(engine_with: Any, answer: object) -> None:
    class Strange:
        @hookimpl
        def coevo_wanted(self, capacity: int) -> Any:
            return answer

    with pytest.raises(PluginError, match="coevo_wanted of 'strange' answered"):
        engine_with(strange=Strange()).wanted(5)


def test_a_plugin_that_fails_stops_nothing(engine_with: Any) -> None:
    class Broken:
        @hookimpl
        def coevo_wanted(self, capacity: int) -> Sequence[RolloutRequest] | None:
            raise RuntimeError("no")

    assert len(engine_with(broken=Broken(), wants=Wants(2)).wanted(5)) == 2
