"""Train hard questions under instructions drawn at random, without a search."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from outside import ForTheHard

from prompt_coevo import Method, hookimpl
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.context import Context
from prompt_coevo.demo.unnamed.families import UNNAMED
from prompt_coevo.demo.unnamed.teachers import instructions_about
from prompt_coevo.placement import question_text
from prompt_coevo.types import Group, Question

_LABELS: Final = {family.label for family in UNNAMED}
_STREAM: Final = StreamSettings()


def _label(question: Question) -> str:
    """Return what stands before the item."""
    return question_text(question.prompt).partition(":")[0]


class Drawn(ForTheHard):
    """Give hard questions the instructions that the teacher of `stream` draws from.

    The first member of a group is bare, each of the others draws anew. As in `stream`, a question is hard
    below `tau`, and a failure under an instruction gets no negative advantage. Unlike `stream`, it is told
    which instructions are about a question, and that questions which do not state their task are hard.
    """

    def __init__(self, context: Context) -> None:
        def write(question: Question, round: int, count: int) -> list[str]:
            rng = random.Random(f"{context.settings.seed}|{question.id}|{round}")
            return rng.choices(instructions_about(_label(question)), k=count)

        super().__init__(write, lambda question: _label(question) in _LABELS, _STREAM.solved_at)

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        for group in groups:
            share = group.bare.solved_share(_STREAM.solved_at)
            if share is not None:
                (self.hard.add if share < _STREAM.tau else self.hard.discard)(group.question_id)


DRAWN: Final = Method("drawn", plugin=Drawn, provides=frozenset({"template"}), may_distill=True)
