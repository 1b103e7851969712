from __future__ import annotations

import math

from prompt_coevo.algorithms.hard_questions.hard_set import HardSet
from prompt_coevo.types import Assignment, Candidate, Group, Rollout


def group(question_id: str, *rewards: float, templated: bool = False) -> Group:
    template = Candidate("Hint.", "template") if templated else None
    assignment = Assignment(question_id, template=template)
    return Group(question_id, tuple(Rollout(assignment, "", reward) for reward in rewards))


def test_the_threshold_is_strict() -> None:
    hard = HardSet(tau=0.2)
    hard.observe(group("below", 0, 0, 0, 0, 0, 1))  # 1/6
    hard.observe(group("at", 0, 0, 0, 0, 1))  # 1/5
    hard.observe(group("above", 0, 1))
    assert hard.ids == ("below",)


def test_a_later_measurement_replaces_the_verdict() -> None:
    hard = HardSet(tau=0.2)
    hard.observe(group("a", 0, 0))
    hard.observe(group("b", 1, 1))
    hard.observe(group("a", 1, 1))
    hard.observe(group("b", 0, 0))
    assert hard.ids == ("b",)


def test_a_question_that_was_not_measured_keeps_its_verdict() -> None:
    hard = HardSet(tau=0.2)
    hard.observe(group("a", 0, 0))
    hard.observe(group("b", 0, 0))
    assert "a" in hard
    assert len(hard) == 2


def test_templated_groups_count_as_well() -> None:
    hard = HardSet(tau=0.2)
    hard.observe(group("a", 0, 0, templated=True))
    assert hard.ids == ("a",)


def test_a_group_without_fit_rollouts_measures_nothing() -> None:
    hard = HardSet(tau=0.2)
    hard.observe(group("a", math.nan, math.nan))
    assert hard.ids == ()
    hard.observe(group("a", 0.0, math.nan))
    assert hard.ids == ("a",)
    hard.observe(group("a", math.nan))
    assert hard.ids == ("a",)


def test_it_survives_json() -> None:
    hard, other = HardSet(0.2), HardSet(0.2)
    hard.observe(group("a", 0, 0.1))
    other.load(hard.to_json())
    assert other.to_json() == hard.to_json() == ["a"]
