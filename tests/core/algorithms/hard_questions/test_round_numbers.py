"""What a round's rollouts say, with a template and without one: two numbers that do not mix."""

from __future__ import annotations

from prompt_coevo.algorithms.hard_questions.round_numbers import round_numbers
from prompt_coevo.types import Assignment, Candidate, Rollout

HINT = Candidate("a hint", "template")


def rollout(question: str, reward: float, *, templated: bool) -> Rollout:
    return Rollout(Assignment(question, template=HINT if templated else None), "", reward)


def test_what_templates_solve_does_not_count_as_learned() -> None:
    """A hard question that is solved under a template alone, and an easy one."""
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
