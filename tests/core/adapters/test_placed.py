"""Check whether the tokens that a policy was sampled on hold what was placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from prompt_coevo.adapters.common.placed import reached
from prompt_coevo.types import EMPTY_TEMPLATE, Assignment, Candidate


class Characters:
    """A tokenizer of characters that, as some do, begins a text with a space and knows no capitals."""

    def __call__(self, text: str, **_: object) -> dict[str, Any]:
        return {"input_ids": list(f" {text}".lower().encode())}

    def batch_decode(self, ids: Sequence[Sequence[int]], **_: object) -> list[str]:
        return [bytes(row).decode() for row in ids]


INSTRUCTION = Candidate("Answer with\n ONE word.", "instruction")
TEMPLATE = Candidate("Name the capital.", "template")


@pytest.mark.parametrize(
    ("prompt", "assignment", "has_reached"),
    [
        ("<user> Norway", Assignment("q"), True),
        ("<user> Norway", Assignment("q", template=EMPTY_TEMPLATE), True),
        ("<user> Norway", Assignment("q", template=TEMPLATE), False),
        ("<user> You are in a game: Norway", Assignment("q", instruction=INSTRUCTION), False),
        ("<user> Name the capital.\n\nNorway", Assignment("q", template=TEMPLATE), True),
        (
            "<system>Answer with one word.<user>Norway",
            Assignment("q", instruction=INSTRUCTION),
            True,
        ),
        (
            "<system>Answer with one word.<user>Norway",
            Assignment("q", instruction=INSTRUCTION, template=TEMPLATE),
            False,
        ),
    ],
)
def test_a_prompt_must_hold_all_that_was_placed(
    prompt: str, assignment: Assignment, has_reached: bool
) -> None:
    tokenizer: Any = Characters()
    assert reached(tokenizer, tokenizer(prompt)["input_ids"], assignment) == has_reached
