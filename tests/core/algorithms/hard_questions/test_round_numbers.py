"""Check the two numbers of a round, with and without a template, which must not be mixed."""

from __future__ import annotations

from prompt_coevo.algorithms.hard_questions.round_numbers import round_numbers
from prompt_coevo.types import Assignment, Candidate, Rollout

HINT = Candidate("a hint", "template")


def rollout(question: str, reward: float, *, templated: bool, group: int = 0) -> Rollout:
    template = HINT if templated else None
    return Rollout(Assignment(question, group=group, template=template), "", reward)


def test_what_templates_solve_does_not_count_as_learned() -> None:
    """Neither a hard question solved only under a template nor an easy one counts as learned."""
    rollouts = [
        rollout("hard", 1.0, templated=True),
        rollout("hard", 1.0, templated=True),
        rollout("hard", 0.0, templated=False),
        rollout("easy", 1.0, templated=False),
    ]
    numbers = round_numbers(rollouts, {"hard"}, 1.0)
    assert numbers["hard_solved_templated"] == 1.0
    assert numbers["hard_solved_untemplated"] == 0.0
    assert numbers["solved_untemplated"] == 0.5


def test_a_group_is_covered_if_one_of_its_rollouts_under_templates_succeeds() -> None:
    """Two groups of one question count as two; a success without a template covers nothing."""
    rollouts = [
        rollout("a", 1.0, templated=True, group=0),
        rollout("a", 0.0, templated=True, group=0),
        rollout("a", 0.0, templated=True, group=1),
        rollout("b", 0.0, templated=True, group=2),
        rollout("b", 1.0, templated=False, group=2),
        rollout("easy", 1.0, templated=True, group=3),
    ]
    numbers = round_numbers(rollouts, {"a", "b"}, 1.0)
    assert numbers["hard_covered"] == 1 / 3
    assert "hard_covered" not in round_numbers(rollouts, set(), 1.0)
