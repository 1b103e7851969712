"""Check P2O's Algorithm 2, step 2."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from prompt_coevo.algorithms.p2o.cover import TemplateCover, one_answer
from prompt_coevo.candidates.trials import ScoredPool
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, PolicyVersion

A, B, C = (Candidate(text, "template") for text in "ABC")
DEV = ("d0", "d1", "d2", "d3")
HARD = frozenset({*DEV, "t0", "t1"})


def pool(
    *rows: list[float], templates: tuple[Candidate, ...] = (EMPTY_TEMPLATE, A, B, C)
) -> ScoredPool:
    return ScoredPool(
        templates[: len(rows)], DEV, np.array(rows, dtype=float).reshape(-1, 4), PolicyVersion()
    )


# The empty template solves nothing, A solves d0 to d2 (mean 3/4), B solves d3 (mean 1/4), C adds nothing.
POOL = pool([0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0])


@pytest.mark.parametrize(
    ("solved", "truths", "refused"),
    [
        ("1110000", "yyynnnn", True),  # always yes
        ("1110100", "yyynnnn", False),  # it has solved a no
        ("1100000", "yyynnnn", False),  # too few to tell
        ("1110000", "abcdefg", False),  # a constant answer solves one of these
        ("1111100", "yyyyynn", True),
        ("1110000", "yyyyynn", False),  # solves some, and may have missed both others by chance
        ("1111000", "yyyyynn", True),
        ("1110000", "yyyyyyy", False),  # there is no other answer
        ("1110000", "yyy????", False),  # nobody knows the others' right answers
        ("1110000", "???nnnn", False),
        ("0000000", "yyynnnn", False),
    ],
)
def test_a_template_for_one_answer_is_told_from_one_that_works(
    solved: str, truths: str, refused: bool
) -> None:
    questions = tuple(str(number) for number in range(len(truths)))
    scores = np.array([[0.0] * 7, [float(one) for one in solved]])
    measured = ScoredPool((EMPTY_TEMPLATE, A), questions, scores, PolicyVersion())
    right = {
        one: None if truth == "?" else truth for one, truth in zip(questions, truths, strict=False)
    }
    assert one_answer(measured, 1.0, right.__getitem__) == ((A,) if refused else ())
    assert measured.without([A]).candidates == (EMPTY_TEMPLATE,)
    assert measured.without([A]).scores.shape == (1, 7)


@pytest.fixture
def cover() -> TemplateCover:
    found = TemplateCover.from_pool(POOL, HARD, solved_at=1.0)
    assert found is not None
    return found


def test_the_cover_by_hand(cover: TemplateCover) -> None:
    assert cover.templates == (A, B)
    assert cover.weights == (0.75, 0.25)
    assert cover.solvers == {"d0": (0,), "d1": (0,), "d2": (0,), "d3": (1,)}


def test_a_solved_dev_question_gets_the_templates_that_solve_it(cover: TemplateCover) -> None:
    rng = np.random.default_rng(0)
    assert cover.draw("d0", 5, rng) == [A] * 5
    assert cover.draw("d3", 5, rng) == [B] * 5


def test_other_questions_draw_from_the_whole_cover_by_mean_score(cover: TemplateCover) -> None:
    drawn = Counter(t.text for t in cover.draw("t0", 4000, np.random.default_rng(0)))
    assert drawn["A"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert set(drawn) == {"A", "B"}


def test_the_same_template_for_the_whole_group(cover: TemplateCover) -> None:
    seen = set()
    for seed in range(30):
        drawn = cover.draw("t0", 6, np.random.default_rng(seed), "same")
        assert len(drawn) == 6
        assert len(set(drawn)) == 1
        seen.add(drawn[0])
    assert seen == {A, B}


def test_no_cover_if_nothing_is_solved() -> None:
    assert TemplateCover.from_pool(pool([0, 0, 0, 0]), HARD, 1.0) is None
    assert TemplateCover.from_pool(pool(), HARD, 1.0) is None


def test_the_empty_template_stays_if_it_solves_something() -> None:
    cover = TemplateCover.from_pool(pool([1, 0, 0, 0], [0, 1, 0, 0]), HARD, 1.0)
    assert cover is not None
    assert cover.templates == (EMPTY_TEMPLATE, A)


def test_negative_means_are_shifted() -> None:
    cover = TemplateCover.from_pool(pool([1, -9, 0, 0], [0, 1, 0, 0]), HARD, 1.0)
    assert cover is not None
    assert cover.weights == (0.0, 2.25)
    assert cover.draw("t0", 20, np.random.default_rng(0)) == [A] * 20
    # The only one that solves d0 has no weight and is still drawn.
    assert cover.draw("d0", 2, np.random.default_rng(0)) == [EMPTY_TEMPLATE] * 2


def test_it_survives_json(cover: TemplateCover) -> None:
    assert TemplateCover.from_json(json.loads(json.dumps(cover.to_json()))) == cover
