from __future__ import annotations

import json

import pytest

from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.verl.in_flight import InFlight
from prompt_coevo.adapters.verl.saved_plans import plans_from_json, plans_to_json
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, PolicyVersion, Rollout

ROWS = [{"id": f"q{number}", "prompt": f"question {number}"} for number in range(3)]


@pytest.fixture
def engine() -> Coevolution:
    return Coevolution.from_settings(Settings(algorithms=()))


@pytest.fixture
def under_way(engine: Coevolution) -> InFlight:
    questions = QuestionIndex(
        ROWS,
        prompt=lambda row: row["prompt"],
        truth=lambda row: None,
        own_id=lambda row: row["id"],
    )
    return InFlight(engine, questions, 2)


def ids(under_way: InFlight, names: list[str]) -> dict[str, list[tuple[str, int]]]:
    return {
        name: [(one.question_id, one.member) for one in group]
        for name, group in under_way.planned(names).items()
    }


def test_groups_go_by_the_hosts_names(under_way: InFlight) -> None:
    groups = under_way.plan(["a", "b"], ROWS[1:])
    assert ids(under_way, ["b"]) == {"b": [("q2", 0), ("q2", 1)]}
    assert under_way.planned(["a", "b"]) == dict(zip("ab", groups, strict=True))


def test_the_order_is_that_of_the_plans(under_way: InFlight) -> None:
    under_way.plan(["z"], ROWS[:1])
    under_way.plan(["a"], ROWS[1:2])
    assert list(under_way.planned(["a", "z"])) == ["z", "a"]


def test_a_group_that_nobody_planned_is_refused(under_way: InFlight) -> None:
    under_way.plan(["a"], ROWS[:1])
    with pytest.raises(HostError, match="the group b came back without having been dispatched"):
        under_way.planned(["a", "b"])


def back(group: list[Assignment]) -> list[Rollout]:
    return [Rollout.scored(one, "text", 1.0, PolicyVersion()) for one in group]


def test_what_was_dropped_is_observed_with_the_next_round(
    engine: Coevolution, under_way: InFlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[list[Rollout]] = []
    monkeypatch.setattr(engine, "observe", rounds.append)
    dropped, trained = map(back, under_way.plan(["a", "b"], ROWS[:2]))
    under_way.came_back(dropped, ["a", "a stranger"])
    under_way.observe(trained, ["b"])
    under_way.observe([], [])
    assert rounds == [[*dropped, *trained], []]
    assert not under_way


def test_what_was_observed_cannot_come_back_and_the_others_can(under_way: InFlight) -> None:
    first, second = under_way.plan(["a", "b"], ROWS[:2])
    under_way.plan(["c"], ROWS[2:])
    under_way.observe(back(first), ["a"])
    with pytest.raises(HostError, match="the group a came back"):
        under_way.planned(["a"])
    assert list(under_way.all()) == ["b", "c"]
    under_way.observe(back(second), ["b"])
    under_way.clear()
    assert not under_way


def test_what_a_checkpoint_holds_is_observed_by_the_next_run(
    engine: Coevolution, under_way: InFlight
) -> None:
    under_way.plan(["a", "b"], ROWS[:2])
    state, plans = engine.state_dict(), json.loads(json.dumps(plans_to_json(under_way.all())))
    next_engine = Coevolution.from_settings(Settings(algorithms=()))
    questions = under_way._questions
    resumed = InFlight(next_engine, questions, 2)
    with pytest.raises(HostError, match="rollouts of round 0, .* the two are not from the same"):
        resumed.resume(plans_from_json(plans))
    next_engine.load_state_dict(state)
    groups = plans_from_json(plans)
    assert groups == under_way.all()
    resumed.resume(groups)
    resumed.observe(back(groups["b"]), ["b"])
    assert list(resumed.all()) == ["a"]
