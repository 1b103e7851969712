"""Stand-ins for a reflection model: what a good one might say, and what a bad one would.

None of them knows which instruction is right, and none reads an answer or a completion.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final, Literal

from prompt_coevo.demo.unnamed.families import UNNAMED

TeacherName = Literal["reader", "blind", "random"]

_ANYTHING: Final = (
    "Think step by step.",
    "Answer with one word.",
    "Explain your answer.",
    "Answer in one sentence.",
    "Write a short poem about it.",
    "Tell me something that I do not know about it.",
)
_ABOUT: Final = {family.label: (*family.right, *family.wrong) for family in UNNAMED}
_FIRST_WORD: Final = re.compile(r"<question>\s*(\w+)")


def instructions_about(label: str | None) -> tuple[str, ...]:
    """Return the six instructions for a family's label, of which two are right, or general ones."""
    return _ABOUT.get(label, _ANYTHING)


def drawing(instructions: Sequence[str], seed: int) -> Callable[[str], str]:
    """Make a teacher that draws one of these instructions, whatever the question."""
    rng = random.Random(f"{seed}|drawing")
    return lambda _prompt: f"<template>{rng.choice(instructions)}</template>"


def teacher(name: TeacherName, seed: int) -> Callable[[str], str]:
    """Build a teacher: a function from reflection prompt to reply.

    `reader` reads the word before the item in the first question (Country, Word, ...) and guesses among six
    instructions about such things, two of which are right. `blind` guesses among all of them and six
    general ones, whatever the question. `random` knows no right one.
    """
    rng = random.Random(f"{seed}|{name}")
    wrong = [text for family in UNNAMED for text in family.wrong] + list(_ANYTHING)
    right = [text for family in UNNAMED for text in family.right]

    def write(prompt: str) -> str:
        pool: tuple[str, ...] = (*wrong, *right) if name == "blind" else tuple(wrong)
        if name == "reader":
            found = _FIRST_WORD.search(prompt)
            pool = instructions_about(found.group(1) if found else None)
        return f"<template>{rng.choice(pool)}</template>"

    return write
