"""Check what is recorded about templates on questions, and what is inferred from it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from helpers.likeness import SharedValue
from prompt_coevo.algorithms.stream import evidence as module
from prompt_coevo.algorithms.stream.evidence import Belief, Evidence
from prompt_coevo.algorithms.stream.likeness import Alike, Unlike
from prompt_coevo.errors import PluginError

TOPICS = SharedValue(["a", "a", "b", "b"], weight=0.5)


def opened(slots: int = 3, likeness: object = TOPICS, questions: int = 4) -> Evidence:
    evidence = Evidence(questions, likeness)  # type: ignore[arg-type]
    for slot in range(slots):
        evidence.open(slot, ())
    return evidence


def mean(evidence: Evidence, question: int, slot: int, step: int = 0) -> float:
    return float(evidence.belief(question, [slot], step).means[0])


def test_an_outcome_counts_most_where_it_came_from_and_less_on_what_is_alike() -> None:
    evidence = opened()
    for _ in range(4):
        evidence.add(0, [1], [1.0], [0], step=0)
    itself, alike, other = (mean(evidence, question, 1) for question in (0, 1, 2))
    assert itself > alike > other > mean(opened(), 2, 1)
    belief = evidence.belief(1, [1], 0)
    assert belief.solves[0] == pytest.approx(0.05 + 0.5 * 4 + 0.02 * 4)
    assert belief.fails[0] == pytest.approx(1.0)


def test_failures_lower_the_belief() -> None:
    evidence = opened()
    before = mean(evidence, 1, 1)
    evidence.add(0, [1], [0.0], [0], step=0)
    assert mean(evidence, 1, 1) < before


def test_a_template_is_hoped_to_solve_what_it_was_written_for_and_what_is_like_it() -> None:
    evidence = opened()
    evidence.open(1, [0])
    written, alike, other = (evidence.belief(question, [1], 0).solves[0] for question in (0, 1, 2))
    assert [written, alike, other] == pytest.approx([0.75, 0.4, 0.05])


def test_old_outcomes_count_less() -> None:
    evidence = opened()
    evidence.add(0, [1], [1.0], [0], step=10)
    fresh, old = evidence.belief(0, [1], 10).solves[0], evidence.belief(0, [1], 210).solves[0]
    worn = 0.995**200
    assert fresh == pytest.approx(0.05 + 1.02)
    assert old == pytest.approx(0.05 + 1.02 * worn)
    evidence.add(0, [1], [1.0], [0], step=210)
    assert evidence.belief(0, [1], 210).solves[0] == pytest.approx(0.05 + 1.02 * (1 + worn))


def test_an_outcome_that_comes_late_is_as_old_as_its_weights() -> None:
    late, at_once = opened(), opened()
    late.add(0, [1], [1.0], [50], step=50)
    at_once.add(0, [1], [1.0], [0], step=0)
    assert late.belief(0, [1], 50).solves[0] == pytest.approx(at_once.belief(0, [1], 50).solves[0])


@pytest.mark.parametrize(("reward", "counted"), [(-3.0, 0.0), (0.25, 0.25), (7.0, 1.0)])
def test_a_reward_counts_between_0_and_1(reward: float, counted: float) -> None:
    evidence = opened(likeness=Unlike())
    evidence.add(0, [1], [reward], [0], step=0)
    belief = evidence.belief(0, [1], 0)
    assert belief.solves[0] - 0.05 == pytest.approx(1.02 * counted)
    assert belief.fails[0] - 1 == pytest.approx(1.02 * (1 - counted))


def test_outcomes_of_one_call_under_the_same_template_all_count() -> None:
    together, apart = opened(), opened()
    together.add(0, [1, 2, 1], [1.0, 0.0, 0.5], [0, 3, 3], step=4)
    for slot, reward, age in ((1, 1.0, 0), (2, 0.0, 3), (1, 0.5, 3)):
        apart.add(0, [slot], [reward], [age], step=4)
    for question in range(4):
        one, other = (e.belief(question, [0, 1, 2], 4) for e in (together, apart))
        assert one.solves.tolist() == pytest.approx(other.solves.tolist())
        assert one.fails.tolist() == pytest.approx(other.fails.tolist())


def test_a_slot_that_is_used_again_knows_nothing_of_the_template_before() -> None:
    evidence = opened()
    evidence.open(1, [0, 3])
    evidence.add(0, [1], [1.0], [0], step=0)
    evidence.open(1, [2])
    assert mean(evidence, 0, 1) == mean(opened(), 0, 1)
    assert mean(evidence, 3, 1) == pytest.approx((0.05 + 0.35) / 1.4)


def test_outcomes_under_another_instruction_count_half() -> None:
    evidence = opened()
    evidence.add(0, [1], [1.0], [0], step=0)
    evidence.halve()
    assert evidence.belief(0, [1], 0).solves[0] == pytest.approx(0.05 + 0.51)


def test_the_question_that_was_not_rolled_out_for_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_ROWS", 3)
    evidence = opened(likeness=Unlike(), questions=10)
    for step, question in enumerate([5, 6, 7, 5, 8]):
        evidence.add(question, [1], [1.0], [0], step)
    known = [q for q in range(10) if evidence.belief(q, [1], 5).solves[0] > 0.5]
    assert known == [5, 7, 8]
    assert len(evidence.to_json([f"q{n}" for n in range(10)])["questions"]) == 3


@pytest.mark.parametrize("forgetting", [False, True])
def test_a_loaded_evidence_goes_on_as_the_one_that_was_saved(
    forgetting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if forgetting:
        monkeypatch.setattr(module, "_ROWS", 6)
    ids = [f"q{n}" for n in range(12)]
    numbers = {name: number for number, name in enumerate(ids)}
    likeness = SharedValue([number % 3 for number in range(12)])
    rng = np.random.default_rng(0)
    outcomes = [
        (int(rng.integers(12)), rng.integers(5, size=3), rng.random(3), [0, 2, 5], step // 3)
        for step in range(400)
    ]
    evidence = opened(5, likeness, 12)
    for outcome in outcomes[:250]:
        evidence.add(*outcome)
    loaded = opened(5, likeness, 12)
    loaded.load(json.loads(json.dumps(evidence.to_json(ids))), numbers)
    for outcome in outcomes[250:]:
        evidence.add(*outcome)
        loaded.add(*outcome)
    for question in range(12):
        one, other = (e.belief(question, range(5), 140) for e in (evidence, loaded))
        assert one.solves.tolist() == other.solves.tolist()
        assert one.fails.tolist() == other.fails.tolist()
    assert evidence.to_json(ids) == loaded.to_json(ids)


def test_questions_that_the_dataset_has_lost_are_left_out() -> None:
    evidence = opened(likeness=Unlike())
    evidence.add(2, [1], [1.0], [0], step=0)
    evidence.add(3, [1], [1.0], [0], step=0)
    loaded = opened(likeness=Unlike())
    loaded.load(evidence.to_json(["a", "b", "c", "d"]), {"d": 0})
    assert [len(loaded.to_json(["d", "", "", ""])["questions"])] == [1]
    assert mean(loaded, 0, 1) == pytest.approx(mean(evidence, 3, 1))


def test_what_is_known_elsewhere_never_outweighs_a_questions_own_failures() -> None:
    """A template that is good in general once blocked reflection on the questions it fails."""
    evidence = opened(likeness=Unlike())
    for _ in range(5_000):
        evidence.add(0, [1], [1.0], [0], step=0)
    assert mean(evidence, 3, 1) == pytest.approx(0.55 / 1.55)
    evidence.add(3, [1, 1], [0.0, 0.0], [0, 0], step=0)
    assert mean(evidence, 3, 1) < 0.2


def test_a_state_of_a_library_that_was_larger_is_taken_up() -> None:
    large = opened(slots=90, likeness=Unlike())
    large.add(2, [80, 1], [1.0, 0.5], [0, 0], step=0)
    ids = ["a", "b", "c", "d"]
    loaded = opened(slots=2, likeness=Unlike())
    loaded.load(json.loads(json.dumps(large.to_json(ids))), {name: n for n, name in enumerate(ids)})
    assert mean(loaded, 2, 1) == mean(large, 2, 1)
    assert loaded.to_json(ids)["cells"] == large.to_json(ids)["cells"]


@pytest.mark.parametrize(
    "alike",
    [
        None,
        (np.array([0]), np.array([1.0])),
        Alike(np.array([1]), np.array([1.0])),
        Alike(np.array([0, 9]), np.array([1.0, 0.5])),
        Alike(np.array([0, 1]), np.array([1.0, -0.5])),
        Alike(np.array([0, 1]), np.array([1.0])),
    ],
)
def test_a_likeness_that_errs_ends_the_run(alike: object) -> None:
    class Strange:
        def near(self, number: int) -> object:
            return alike

    with pytest.raises(PluginError, match="the likeness answers .* for question 0 of 4"):
        opened(likeness=Strange()).belief(0, [1], 0)


@pytest.mark.parametrize("others", [16, 64, 255, 1_023])
def test_what_is_known_to_work_is_not_drowned_by_what_was_never_tried(others: int) -> None:
    """The template has twelve successes of sixteen here; among 255 untried ones it used to get no draw in
    ten."""
    evidence = opened(others + 2)
    for outcome in [1.0] * 12 + [0.0] * 4:
        evidence.add(0, [1], [outcome], [0], step=0)
    belief = evidence.belief(0, range(others + 2), 0)
    drawn = np.random.default_rng(0).beta(belief.solves, belief.fails, size=(2_000, others + 2))
    assert (drawn.argmax(axis=1) == 1).mean() > 0.6


def test_a_question_is_solvable_by_itself_and_not_because_those_like_it_are() -> None:
    evidence = opened()
    nothing = Belief(np.zeros(0), np.zeros(0))
    for _ in range(8):
        evidence.add(1, [0], [1.0], [0], step=0)
    assert evidence.is_solvable(1, nothing)
    assert not evidence.is_solvable(0, nothing)
    assert evidence.is_solvable(0, Belief(np.array([0.05, 1.0]), np.array([1.0, 1.0])))


def test_what_was_solved_long_ago_counts_little_in_a_full_library() -> None:
    evidence = opened()
    for _ in range(6):
        evidence.add(0, [1], [1.0], [0], step=0)
    evidence.add(2, [2], [1.0], [0], step=2_000)
    solved = evidence.solved_on({0, 2, 3}, step=2_000)
    assert solved[2] == pytest.approx(1.0)
    assert solved[1] < 0.01
