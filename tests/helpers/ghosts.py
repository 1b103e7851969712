"""Let completions not depend on the prompt, and give half of each group a template.

Then a run with templates and one without train on the same rows. `say` is the script of the stand-in
servers (`COEVO_TEST_SCRIPT`), `HALF` the method.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

from prompt_coevo import hookimpl
from prompt_coevo.settings.method import Method
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, MemberPlan

_TEMPLATES: Final = ("note please", "note that zorp means swap-pairs . think well")
_asked: Counter[str] = Counter()


def say(prompt: str, sampled: str) -> str:
    """Return the next of a question's completions, which are the same in every run."""
    question = prompt[prompt.rindex("use ") :]
    _asked[question] += 1
    rng = random.Random(f"{question}/{_asked[question]}")
    return " ".join(rng.choices("0123456789", k=rng.randint(1, 9)))


class Half:
    """Plans a template for every second member of each group."""

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


HALF: Final = Method(
    "half", lambda context: Half(), provides=frozenset({"template"}), may_distill=True
)
