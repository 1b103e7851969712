from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import c_float
from types import SimpleNamespace

import pytest

from prompt_coevo.algorithms.hard_questions.hard_set import HardSet
from prompt_coevo.settings import Settings
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


@pytest.mark.parametrize("tau", [0.2, 0.6, 0.7, 0.9])
def test_a_mean_in_single_precision_meets_the_threshold(tau: float) -> None:
    """Trainers keep rewards in single precision, where .7 and .9 become slightly less."""
    hard = HardSet(tau)
    hard.observe(group("at", *[c_float(tau).value] * 3))
    hard.observe(group("below", *[c_float(tau - 1e-6).value] * 3))
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


def test_partial_credit_is_no_success() -> None:
    """Game of Life, always answered wrongly, has a mean of .94."""
    bare, literal = HardSet(0.2, bare=True), HardSet(0.2)
    for hard in (bare, literal):
        hard.observe(group("life", 0.94, 0.93, 0.95, 0.94))
        hard.observe(group("half", 1.0, 0.3, 1.0, 0.2))
    assert bare.ids == ("life",)
    assert literal.ids == ()


def test_for_rewards_of_0_and_1_share_and_mean_are_the_same() -> None:
    for rewards in ([0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1], [1], [0], [1, 0]):
        bare, literal = HardSet(0.2, bare=True), HardSet(0.2)
        for hard in (bare, literal):
            hard.observe(group("a", *rewards))
        assert bare.ids == literal.ids


@pytest.mark.parametrize(("a_round", "rounds"), [(1, 8), (2, 4), (4, 4)])
@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (
            lambda n: 0.5,
            "none is hard: the lowest success of a question is 0.5, and p2o.tau = 0.2",
        ),
        (
            lambda n: n / 64,
            "every one is hard: the highest success of a question is 0.047, below p2o.tau = 0.2; "
            "success is a group's mean deciding reward (p2o.hardness is literal), so look at",
        ),
        (lambda n: 0.0, None),  # of this the engine speaks
        (lambda n: float(n % 2), None),
    ],
)
def test_a_threshold_that_tells_no_questions_apart_is_said_once(
    reward: Callable[[int], float], said: str | None, a_round: int, rounds: int
) -> None:
    """TRL's default batch is one question a round, so 8 rounds measure the 8 questions that it takes."""
    notes: list[str] = []
    context = SimpleNamespace(warn_early=lambda sign, sentence: notes.append(sentence))
    hard = HardSet.of(Settings().p2o, context)
    for number in range(16):
        places = [(number * a_round + n) % 4 for n in range(a_round)]
        hard.observe_all(group(f"{number}-{n}", reward(n), reward(n)) for n in places)
    assert len(notes) == (said is not None)
    if said is not None:
        assert said in notes[0]
        assert f"after {rounds} rounds with {rounds * a_round} questions" in notes[0]
