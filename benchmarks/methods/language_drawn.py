"""Train hard questions under instructions drawn at random: what `stream` would be without its search."""

from __future__ import annotations

import random
from typing import Final

from outside import ForTheHard

from prompt_coevo import Method
from prompt_coevo.context import Context
from prompt_coevo.demo.unnamed.families import UNNAMED
from prompt_coevo.demo.unnamed.teachers import instructions_about
from prompt_coevo.placement import question_text
from prompt_coevo.types import Question

_LABELS: Final = {family.label for family in UNNAMED}
_SOLVED: Final = 1.0


def _first_word(question: Question) -> str:
    return question_text(question.prompt).partition(":")[0]


class Drawn(ForTheHard):
    """Give hard questions instructions that the teacher of `stream` draws from, others each time.

    Questions that do not state their task are hard from the start. As in `stream`, a failure under an
    instruction gets no negative advantage.
    """

    def __init__(self, context: Context) -> None:
        def write(question: Question, round: int, count: int) -> list[str]:
            rng = random.Random(f"{context.settings.seed}|{question.id}|{round}")
            return rng.choices(instructions_about(_first_word(question)), k=count)

        super().__init__(write, lambda question: _first_word(question) in _LABELS, _SOLVED)


DRAWN: Final = Method("drawn", plugin=Drawn, provides=frozenset({"template"}), may_distill=True)
