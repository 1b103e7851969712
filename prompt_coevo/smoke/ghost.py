"""Completions that do not depend on the prompt, and templates for half of each group.

A run with such templates must train on the rows of the bare trainer, and end with its weights. VeRL and
OpenRLHF load the sampler from `ghost_verl` and `ghost_openrlhf`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final

from prompt_coevo import hookimpl
from prompt_coevo.demo.digits import MAX_COMPLETION
from prompt_coevo.settings.method import Method
from prompt_coevo.smoke import world
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, Group, MemberPlan, OfRound

_TEMPLATES: Final = ("note please", "note that zorp means swap-pairs . think well")
_WORDS: Final = range(8, 40)
"""Ids of words: no marks of the chat template."""
_asked: Counter[str] = Counter()


@cache
def _questions() -> list[str]:
    return [task.question for task in world.tasks()]


def completion(asked: str, end: int | None) -> list[int]:
    """Return the next completion of the question in `asked`, the same in every run, with its end token."""
    question = next(one for one in _questions() if one in asked)
    _asked[question] += 1
    rng = random.Random(f"{question}/{_asked[question]}")
    ids = rng.choices(_WORDS, k=rng.randrange(1, MAX_COMPLETION - 1))
    return ids if end is None else [*ids, end]


def score(ids: list[int]) -> float:
    """Return a reward that differs within a group."""
    return sum(ids) % 5 / 4


def grade(completion: str, answer: str) -> float:
    """Return such a reward of a text, whatever the right answer."""
    return len(completion) % 5 / 4


class Half:
    """Plans a template for every second member of each group."""

    _share = 0.0

    @hookimpl
    def coevo_plan_group(self, question_id: str, group_size: int) -> list[MemberPlan]:
        return [
            MemberPlan(
                template=Candidate(_TEMPLATES[place // 2 % 2], "template")
                if place % 2
                else EMPTY_TEMPLATE
            )
            for place in range(group_size)
        ]

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        under = [one.assignment.templated for group in groups for one in group.rollouts]
        self._share = sum(under) / len(under)

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {"templated_fraction": OfRound(self._share)}


HALF: Final = Method(
    "half", lambda context: Half(), provides=frozenset({"template"}), may_distill=True
)
