"""How hard questions are known to be, and what that makes one expect."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable

import pytest

from prompt_coevo.algorithms.inspo.handicap import Handicap
from prompt_coevo.algorithms.inspo.known_means import KnownMeans
from prompt_coevo.types import Assignment, Candidate, Group, Rollout


def test_questions_that_score_as_before_are_corrected_for_in_full() -> None:
    handicap = Handicap([("a", 0, before / 4, before / 4 + 0.1) for before in range(5)])
    assert handicap.slope == pytest.approx(1.0)
    assert handicap.of(1.0) == pytest.approx(0.5)
    assert handicap.of(0.5) == 0.0
    assert handicap.of(None) == 0.0


def test_half_of_it_may_be_left() -> None:
    handicap = Handicap([("a", 0, before / 4, before / 8) for before in range(5)])
    assert handicap.of(1.0) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "rewards", [(0.3, 0.3, 0.3, 0.3), (1.0, 0.9, 0.1, 0.0)], ids=["unrelated", "against it"]
)
def test_earlier_scores_that_say_nothing_correct_nothing(rewards: tuple[float, ...]) -> None:
    befores = (0.0, 0.1, 0.9, 1.0)
    handicap = Handicap(
        [("a", 0, before, reward) for before, reward in zip(befores, rewards, strict=True)]
    )
    assert handicap.slope == 0.0


def test_a_better_instruction_is_no_easier_question() -> None:
    """By chance the better one met the questions that had scored more."""
    worse = [("worse", block, 0.0, 0.0) for block in range(4)]
    better = [("better", block, 1.0, 1.0) for block in range(4)]
    assert Handicap([*worse, *better]).slope == 0.0


def test_better_weights_are_no_easier_questions() -> None:
    """Everything rises from block to block."""
    measured = [(name, n, n / 4, n / 4) for n in range(4) for name in ("a", "b")]
    assert Handicap(measured).slope == 0.0


@pytest.mark.parametrize("measured", [[], [("a", 0, None, 1.0)], [("a", 0, 0.5, 1.0)]])
def test_without_knowledge_there_is_nothing_to_correct(
    measured: list[tuple[str, int, float | None, float]],
) -> None:
    handicap = Handicap(measured)
    assert handicap.of(0.5) == handicap.of(None) == handicap.slope == 0.0


def group(question: str, where: tuple[int, int], rewards: Iterable[float], text: str = "") -> Group:
    template = Candidate(text, "template") if text else None
    assignments = (Assignment(question, *where, n, template=template) for n in itertools.count())
    return Group(
        question,
        tuple(Rollout(one, "", reward) for one, reward in zip(assignments, rewards, strict=False)),
    )


def test_the_latest_group_of_a_question_counts_whatever_came_first() -> None:
    groups = [group("q", (number, n), [number / 4]) for number in (1, 2, 3) for n in (0, 1)]
    for order in itertools.permutations(groups):
        known = KnownMeans()
        for one in order:
            known.observe([one])
        assert known.get("q") is None
        known.commit()
        assert known.get("q") == 0.75


def test_unfit_and_templated_rollouts_say_nothing_of_a_question() -> None:
    known = KnownMeans()
    known.observe([group("q", (0, 0), [1.0, math.nan, 0.0])])
    known.commit()
    known.observe([group("q", (1, 0), [math.nan]), group("q", (1, 1), [1.0], "a hint")])
    known.commit()
    assert known.get("q") == 0.5


def test_what_is_known_survives_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prompt_coevo.algorithms.inspo.known_means._REMEMBERED", 3)
    known = KnownMeans()
    known.observe([group(f"q{n}", (0, n), [n]) for n in range(3)])
    known.commit()
    known.observe([group("q0", (1, 0), [5.0]), group("q3", (1, 1), [3.0])])
    again = KnownMeans()
    again.load(json.loads(json.dumps(known.to_json())))
    for one in (known, again):
        one.commit()
        assert [one.get(f"q{n}") for n in range(4)] == [5.0, None, 2.0, 3.0]
