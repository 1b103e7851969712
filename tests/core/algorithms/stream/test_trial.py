"""Check how a template comes into use, and what is drawn."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.likeness import SharedValue
from prompt_coevo.algorithms.stream.evidence import Belief, Evidence
from prompt_coevo.algorithms.stream.library import Library, Template
from prompt_coevo.algorithms.stream.likeness import Unlike
from prompt_coevo.algorithms.stream.members import draw_members
from prompt_coevo.algorithms.stream.trial import concerns, one_answer, unseen, verdict
from prompt_coevo.algorithms.stream.trials import Trials
from prompt_coevo.types import Candidate

TOPICS = SharedValue(["a", "a", "a", "b", None])


def template(text: str = "z", *shown: int, slot: int = 1, **counts: Any) -> Template:
    return Template(Candidate(text, "template"), slot, shown, 0, **counts)


def evidence(likeness: Any = TOPICS) -> Evidence:
    return Evidence(5, likeness)


@pytest.mark.parametrize(
    ("counts", "proof", "expected"),
    [
        ({}, True, None),
        ({"tried": 1, "solved": 1}, True, None),
        ({"tried": 1, "solved": 1}, False, True),
        ({"tried": 1, "solved": 1, "tried_unseen": 1, "solved_unseen": 1}, True, True),
        ({"tried": 10}, True, False),
        ({"tried": 9}, True, None),
        ({"tried": 16, "solved": 2, "tried_unseen": 10}, True, False),
        ({"tried": 16, "solved": 2, "tried_unseen": 9}, True, None),
    ],
)
def test_a_verdict(counts: dict[str, int], proof: bool, expected: bool | None) -> None:
    one = template(**counts)
    assert verdict(one, proof=proof, stale=False) is expected
    if expected is None:
        assert verdict(one, proof=proof, stale=True) is False


@pytest.mark.parametrize(
    ("solved", "others", "refused"),
    [
        ({1: "yes"}, {3: "yes", 4: "no"}, True),
        ({1: "yes", 2: "yes"}, {3: "yes", 4: "no"}, True),
        ({1: "yes", 2: "no"}, {3: "yes", 4: "no"}, False),
        ({1: "yes", 2: "yes"}, {3: "no"}, True),  # all yes are solved
        ({1: "Oslo"}, {3: "Bern", 4: "Rome"}, False),  # a constant answer would not do it again
        ({1: "yes"}, {3: "yes"}, False),  # there is no other answer to ask for
        ({1: None}, {3: "yes", 4: "no"}, False),
        ({1: "yes"}, {3: None, 4: None}, False),
        ({}, {3: "yes", 4: "no"}, False),
    ],
)
def test_a_constant_answer_proves_nothing(
    solved: dict[int, str | None], others: dict[int, str | None], refused: bool
) -> None:
    alike = Evidence(5, SharedValue(["a"] * 5))
    one = template("z", 0, solved_on=tuple(solved))
    right = {0: None, **solved, **others}
    assert one_answer(one, range(5), alike, right.get) is refused


def test_an_answer_that_no_hard_question_has_is_not_asked_for() -> None:
    alike = Evidence(5, SharedValue(["a"] * 5))
    one = template("z", 0, solved_on=(1,))
    right = {0: "yes", 1: "yes", 2: "yes", 3: "no", 4: "no"}
    assert one_answer(one, {0, 1, 2, 3}, alike, right.get)
    assert not one_answer(one, {0, 1, 2}, alike, right.get)
    assert one_answer(one, {0, 3}, alike, right.get)  # what it solved is no longer hard


@pytest.mark.parametrize(("tries", "expected"), [(10, None), (19, None), (20, False)])
def test_a_template_of_one_answer_stays_on_trial_for_a_while(
    tries: int, expected: bool | None
) -> None:
    one = template(tried=tries, solved=5, tried_unseen=tries, solved_unseen=5)
    assert verdict(one, proof=True, stale=False, one_answer=True) is expected
    assert verdict(one, proof=True, stale=True, one_answer=True) is False
    shown = template(tried=tries, solved=5)  # where all hard questions like these were shown
    assert verdict(shown, proof=False, stale=False, one_answer=True) is expected


def test_a_template_remembers_the_questions_that_it_solved_last() -> None:
    one = template("z", 0)
    for number in (0, 1, 2, 1):
        one.count(number, True)
    one.count(3, False)
    assert one.solved_on == (1, 2, 0)
    library, again = Library(size=4), Library(size=4)
    library.add(one.candidate, (0,), 0).solved_on = (1, 2)
    state = library.to_json(list("abcd"))
    again.load(state, {"a": 0, "c": 2})
    kept = again.get(one.candidate.id)
    assert kept is not None
    assert kept.solved_on == (2,)


def test_what_a_proposer_saw_proves_nothing() -> None:
    one = template("z", 0, 3)
    one.count(0, True)
    one.count(3, True)
    assert (one.tried, one.solved, one.tried_unseen) == (2, 2, 0)
    one.count(1, True)
    assert (one.tried_unseen, one.solved_unseen) == (1, 1)


def test_what_is_like_a_shown_question_concerns_a_template() -> None:
    one = template("z", 0)
    assert [concerns(one, question, evidence()) for question in range(5)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert unseen(one, {0, 1, 3, 4}, evidence()) == [1]


def test_where_nothing_is_alike_every_question_concerns_it_and_there_is_no_proof_to_ask_for() -> (
    None
):
    one = template("z", 0)
    assert all(concerns(one, question, evidence(Unlike())) for question in range(5))
    assert unseen(one, set(range(5)), evidence(Unlike())) == []


def test_members_are_bare_then_trying_then_in_use() -> None:
    templates = [
        template("", slot=0, state="in use"),
        template("used", slot=1, state="in use"),
        template("tried", slot=2),
    ]
    belief = Belief(np.array([0.01, 1.0, 500.0]), np.array([50.0, 1.0, 1.0]))
    drawn = draw_members(6, templates, belief, np.random.default_rng(0), bare=1, trying=2)
    texts = [one.candidate.text if one else None for one in drawn]
    assert texts[:3] == [None, "tried", "tried"]
    assert set(texts[3:]) == {"used"}
    alone = draw_members(1, templates, belief, np.random.default_rng(0), bare=2, trying=2)
    assert alone == [None]


def test_every_member_draws_for_itself() -> None:
    templates = [template(str(n), slot=n, state="in use") for n in range(20)]
    belief = Belief(np.ones(20), np.ones(20))
    drawn = draw_members(12, templates, belief, np.random.default_rng(0), bare=0, trying=0)
    assert len({one.slot for one in drawn if one}) > 6


def test_a_dropped_template_leaves_its_slot_and_is_remembered() -> None:
    library = Library(size=2)
    first, second = (library.add(Candidate(text, "template"), [], 0) for text in "ab")
    assert (first.slot, second.slot) == (1, 2)
    library.drop(first, failed_on=[3])
    assert [one.text for one in library.dropped.values()] == ["a"]
    assert library.add(Candidate("c", "template"), [], 0).slot == 1
    assert {one.candidate.text for one in library} == {"", "b", "c"}


def test_the_library_says_how_many_are_too_many() -> None:
    library = Library(size=2)
    for text in "abcd":
        library.add(Candidate(text, "template"), [], 0).state = "in use"
    library.add(Candidate("e", "template"), [], 0)
    assert library.overfull == 2


def test_a_template_is_closed_to_the_kinds_that_it_failed_on_and_to_no_other() -> None:
    """The template is proposed for two kinds and tried on one of them only."""
    library, known = Library(size=4), evidence()
    made = library.add(Candidate("a", "template"), (0, 3), 0)
    known.open(made.slot, (0, 3))
    for _ in range(10):
        known.add(0, [made.slot], [0.0], [0], step=0)
    context: Any = SimpleNamespace(
        settings=SimpleNamespace(section=lambda kind: kind()), note=lambda *_, **__: None
    )
    trials = Trials(context, library, known, Counter())
    trials.judge({0, 1, 2, 3}, epoch=9, step=0, truth=lambda _: None)
    ((_, failed_on),) = library.dropped.values()
    assert failed_on == (0,)


def test_questions_that_a_text_was_proposed_for_are_remembered_up_to_a_limit() -> None:
    one = template("a", slot=1, state="in use")
    for number in range(1_000):
        one.write_for((number,), anew=False)
    assert len(one.shown) == 64
    assert one.shown[0] == 999


def test_what_was_dropped_for_questions_that_are_gone_is_open_to_all() -> None:
    library = Library(size=4)
    library.drop(library.add(Candidate("a", "template"), (0,), 0), failed_on=[0])
    again = Library(size=4)
    again.load(library.to_json(["gone"]), {"other": 0})
    assert not again.dropped
