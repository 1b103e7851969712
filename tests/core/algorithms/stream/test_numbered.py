"""Check the numbers of questions that arrive, are forgotten and arrive again."""

from __future__ import annotations

from typing import Any

from helpers.families import engine_with
from prompt_coevo.algorithms.stream.likeness import none
from prompt_coevo.algorithms.stream.question_numbers import Numbered
from prompt_coevo.types import Question


class Knows:
    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def question_ids(self) -> list[str]:
        return [*self.ids]

    def question(self, question_id: str) -> Question:
        return Question(question_id, "what?")


def test_a_new_question_in_front_of_one_that_comes_again_has_a_number() -> None:
    policy: Any = Knows("first", "again")
    questions = Numbered(engine_with().context, none)
    questions.begin(policy, None)
    policy.ids = ("first", "new", "again", "newer")
    questions.learn(policy)
    assert questions.ids == ["first", "again", "new", "newer"]
    assert questions.numbers == {one: number for number, one in enumerate(questions.ids)}
