"""Let completions not depend on the prompt, and give half of each group a template.

Then a run with templates and one without train on the same rows. `say` is the script of the stand-in
servers (`COEVO_TEST_SCRIPT`), `HALF` the method, and `HALF_AND_ONE` one that trains a row on its template.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Final

from prompt_coevo import hookimpl
from prompt_coevo.smoke.ghost import HALF, Half
from prompt_coevo.types import EMPTY_TEMPLATE, MemberPlan

__all__ = ["HALF", "HALF_AND_ONE", "say"]

_asked: Counter[str] = Counter()


def say(prompt: str, sampled: str) -> str:
    """Return the next of a question's completions, which are the same in every run."""
    question = prompt[prompt.rindex("use ") :]
    _asked[question] += 1
    rng = random.Random(f"{question}/{_asked[question]}")
    return " ".join(rng.choices("0123456789", k=rng.randint(1, 9)))


class HalfAndOne(Half):
    """Plans the same, but the 9th templated rollout is trained on its template."""

    def __init__(self) -> None:
        self._left = 9

    @hookimpl
    def coevo_plan_group(self, question_id: str, group_size: int) -> list[MemberPlan]:
        plans = super().coevo_plan_group(question_id, group_size)
        for place, plan in enumerate(plans):
            if plan.template is not EMPTY_TEMPLATE:
                self._left -= 1
                if not self._left:
                    plans[place] = replace(plan, distill=False)
        return plans


HALF_AND_ONE: Final = replace(HALF, name="half and one", plugin=lambda context: HalfAndOne())
