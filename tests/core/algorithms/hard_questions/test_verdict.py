"""Check the verdict: its intervals, its outcomes and its wording."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest

from prompt_coevo.algorithms.hard_questions import verdict as verdicts
from prompt_coevo.algorithms.hard_questions.outcomes import Outcomes
from prompt_coevo.algorithms.hard_questions.repeated_answers import RepeatedAnswers
from prompt_coevo.algorithms.hard_questions.verdict import (
    Compared,
    Shares,
    Verdict,
    difference,
    mean_gain,
)
from prompt_coevo.types import Assignment, Candidate, Group, Question, Rollout, Summary

HELP = Candidate("Think of k1 .", "template")


def group(name: str, bare: Sequence[float], templated: Sequence[float] = ()) -> Group:
    members = [(None, reward) for reward in bare] + [(HELP, reward) for reward in templated]
    return Group(
        name,
        tuple(
            Rollout(Assignment(name, 0, 0, n, template=template), f"answer {n}", reward)
            for n, (template, reward) in enumerate(members)
        ),
    )


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [  # Newcombe 1998, table II: a) 56/70 - 48/80 b) 9/10 - 3/10 e) 5/56 - 0/29 g) 10/10 - 0/20
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((10, 10), (0, 20), 0.6791, 1.0000),
    ],
)
def test_the_interval_is_newcombes(
    one: tuple[int, int],
    other: tuple[int, int],
    low: float,
    high: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verdicts, "_Z", 1.959964)  # his are of 95 %
    found = difference(Shares(one[0] / one[1], one[1]), Shares(other[0] / other[1], other[1]))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_a_question_that_is_not_met_again_has_no_outcome() -> None:
    outcomes = Outcomes(0.2, 1.0)
    outcomes.observe(group("q", [0.0] * 4), 1, enters=True)
    assert dict(outcomes)["q"].latest is None
    outcomes.observe(group("easy", [1.0] * 4), 1, enters=False)
    assert "easy" not in outcomes


def test_what_counts_is_the_latest_group_and_its_members_without_a_template() -> None:
    outcomes = Outcomes(0.2, 1.0)
    outcomes.observe(group("q", [0.0] * 4), 1, enters=True)
    outcomes.observe(group("q", [0.0], [1.0, 1.0, 0.0]), 5, enters=False)
    one = dict(outcomes)["q"]
    assert (one.latest, one.since, one.solver) == (0.0, None, HELP.id)
    outcomes.observe(group("q", [1.0, 1.0, 0.0, 0.0]), 9, enters=False)
    outcomes.observe(group("q", [1.0] * 4), 12, enters=False)
    assert (one.latest, one.since) == (1.0, 9)
    assert outcomes.solvers() == [(HELP.text, 1)]
    assert outcomes.held_for(outcomes.solved(), 20) == 11
    outcomes.observe(group("q", [0.0] * 4), 15, enters=False)
    assert outcomes.solved() == []
    assert outcomes.shares() == (2 / 3, 0.0)


def test_a_group_that_was_not_judged_changes_nothing() -> None:
    outcomes = Outcomes(0.2, 1.0)
    outcomes.observe(group("q", [0.0] * 2), 1, enters=True)
    outcomes.observe(group("q", [1.0] * 2), 2, enters=False)
    outcomes.observe(group("q", [math.nan] * 2), 3, enters=False)
    assert dict(outcomes)["q"].latest == 1.0


def test_a_question_that_turns_hard_after_one_like_it_counts_as_hard() -> None:
    outcomes = Outcomes(0.2, 1.0)
    outcomes.observe(group("q", [1.0] * 4), 1, enters=False, follows=True, hard=False)
    assert outcomes.found_hard == 0
    outcomes.observe(group("q", [0.0] * 4), 2, enters=False, hard=True)
    assert (outcomes.found_hard, len(outcomes.solved())) == (1, 0)
    outcomes.observe(group("q", [1.0] * 4), 3, enters=False, hard=False)
    assert (outcomes.found_hard, len(outcomes.solved())) == (1, 1)


def test_outcomes_survive_a_checkpoint() -> None:
    outcomes, again = Outcomes(0.2, 1.0), Outcomes(0.2, 1.0)
    outcomes.observe(group("q", [0.0] * 4), 1, enters=True)
    outcomes.observe(group("q", [0.0], [1.0]), 2, enters=False)
    outcomes.observe(group("r", [1.0]), 2, enters=False, follows=True)
    again.load(json.loads(json.dumps(outcomes.to_json())))
    assert dict(again) == dict(outcomes)
    again.observe(group("q", [1.0]), 3, enters=False)
    assert again.solvers() == [(HELP.text, 1)]


@pytest.mark.parametrize(
    ("used", "never", "word"),
    [
        ((0.6, 40), (0.05, 20), "helped"),
        ((0.05, 40), (0.6, 20), "did harm"),
        ((0.3, 40), (0.2, 20), "cannot be told"),
        ((0.2, 20), (0.0, 3), "cannot be told"),
    ],
)
def test_the_word_is_the_intervals(
    used: tuple[float, int], never: tuple[float, int], word: str
) -> None:
    compared = Compared(Shares(*used), Shares(*never))
    outcomes = Outcomes(0.2, 1.0)
    outcomes.observe(group("q", [0.0] * 4), 1, enters=True)
    verdict = Verdict(outcomes, 3, compared, "")
    assert verdict.word == word
    told = verdict.told(Summary("2 templates came into use", False))
    first, *_ = told.text.split(". " if word != "cannot be told" else "; ")
    assert ("2 templates" in first) is (word == "cannot be told")
    assert told.for_nothing is (word == "did harm")
    assert json.loads(json.dumps(told.findings))["verdict"] == word


def test_a_run_for_nothing_says_too_that_it_cannot_be_told() -> None:
    outcomes = Outcomes(0.2, 1.0)
    outcomes.observe(group("q", [0.0] * 4), 1, enters=True)
    told = Verdict(outcomes, 3, None, "compare").told(Summary("0 templates", for_nothing=True))
    assert told.text == "0 templates"
    assert told.lines[0] == "whether it helped cannot be told: compare"


def test_without_a_hard_question_there_is_nothing_to_judge() -> None:
    verdict = Verdict(Outcomes(0.2, 1.0), 3, None, "why")
    came = Summary("0 templates", True)
    assert verdict.told(came) is came


def test_one_side_that_was_not_met_again_cannot_be_told() -> None:
    verdict = Verdict(Outcomes(0.2, 1.0), 3, Compared(Shares(0.5, 9), None), "")
    assert "cannot be told: no hard question of the comparison group" in verdict.sentence


def test_the_gain_of_few_questions_has_no_interval() -> None:
    assert mean_gain([0.1] * 4 + [0.5] * 5) is None
    assert mean_gain([0.3] * 20) is None  # nor from equal ones
    found = mean_gain([0.1] * 10 + [0.5] * 10)
    assert found is not None
    assert 0.1 < found.low < 0.3 < found.high < 0.5


class Truths:
    """A policy that knows the right answers."""

    def __init__(self, different: int) -> None:
        self._different = different

    def question(self, question_id: str) -> Question:
        return Question(question_id, "a question", str(int(question_id) % self._different))

    def question_ids(self) -> list[str]:
        return []

    def rollout(self, requests: object) -> list[Rollout]:
        raise AssertionError


def answered(name: str, completion: str, share: float) -> Group:
    rewards = [1.0] * round(8 * share) + [0.0] * round(8 * (1 - share))
    members = (
        Rollout(Assignment(name, 0, 0, n, template=HELP), completion, reward)
        for n, reward in enumerate(rewards)
    )
    return Group(name, tuple(members))


def test_one_answer_to_all_questions_is_a_sign() -> None:
    answers = RepeatedAnswers(1.0)
    for n in range(64):
        answers.observe([answered(str(n), "The answer is  YES!", 0.5)])
        answers.settle()
    (sign,) = answers.signs(Truths(20))
    assert "one and the same answer is 64 of the last 64" in sign
    assert list(answers.signs(Truths(2))) == []  # two right answers: yes and no


def test_fewer_answers_while_success_rises_are_a_sign() -> None:
    answers = RepeatedAnswers(1.0)
    for n in range(64):
        answers.observe([answered(str(n), f"answer {n}", 0.25)])
        answers.settle()
    assert list(answers.signs(Truths(64))) == []
    kept = RepeatedAnswers(1.0)
    kept.load(json.loads(json.dumps(answers.to_json())))
    for n in range(64, 128):
        kept.observe([answered(str(n), f"answer {n % 8}", 0.75)])
        kept.settle()
    (sign,) = kept.signs(Truths(64))
    assert "went from 0.25 to 0.75" in sign
    assert list(kept.signs(Truths(10))) == []  # as many answers as right ones


def test_few_successes_say_nothing() -> None:
    answers = RepeatedAnswers(1.0)
    answers.observe([answered(str(n), "yes", 0.5) for n in range(63)])
    answers.settle()
    assert list(answers.signs(Truths(20))) == []


class Unknown(Truths):
    """A policy whose dataset has no ground truths."""

    def question(self, question_id: str) -> Question:
        return Question(question_id, "yes or no?")


def test_without_known_truths_equal_answers_may_all_be_right() -> None:
    answers = RepeatedAnswers(1.0)
    for n in range(64):
        answers.observe([answered(str(n), "yes", 0.5)])
        answers.settle()
    assert list(answers.signs(Unknown(1))) == []


def test_answers_that_are_loaded_take_the_place_of_those_there() -> None:
    answers = RepeatedAnswers(1.0)
    answers.observe([answered(str(n), f"answer {n}", 0.5) for n in range(40)])
    answers.settle()
    state = json.loads(json.dumps(answers.to_json()))
    answers.load(state)
    assert answers.to_json()["latest"] == state["latest"]


def test_weighted_groups_tell_no_more_than_their_weights() -> None:
    assert Shares.of([1.0, 0.0, 0.0], [1.0] * 3) == Shares(pytest.approx(1 / 3), 3)
    weighted = Shares.of([1.0, 0.0], [3.0, 1.0])
    assert weighted == Shares(0.75, 1)


def test_of_a_large_round_only_the_last_answers_are_read() -> None:
    groups = [group(f"q{number}", [0.0], [1.0]) for number in range(100)]
    whole, last = RepeatedAnswers(1.0), RepeatedAnswers(1.0)
    assert len(whole.observe(groups)) == 64
    last.observe(groups[-64:])
    for one in (whole, last):
        one.settle()
    assert whole.to_json() == last.to_json()
