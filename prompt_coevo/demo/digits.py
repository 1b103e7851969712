"""Questions about lists of digits: skills, the question as a chat, and the strict answer format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, Protocol, TypeAlias

Digits: TypeAlias = tuple[int, ...]
Kind: TypeAlias = Literal["easy", "medium", "hard"]
"""How well the base policy knows a word."""

MAX_COMPLETION: Final = 18
"""Tokens of a completion; the longest right answer in training has 17."""

FILLERS: Final = ("please", "note", "remember", "carefully", "always", "now")

SKILLS: Final[dict[str, Callable[[Digits], Digits]]] = {
    "reverse": lambda x: x[::-1],
    "rotate": lambda x: x[-1:] + x[:-1],
    "swap-ends": lambda x: x[-1:] + x[1:-1] + x[:1],
    "add-index": lambda x: tuple((value + place + 1) % 10 for place, value in enumerate(x)),
    "add-last": lambda x: tuple((value + x[-1]) % 10 for value in x),
    "add-first": lambda x: tuple((value + x[0]) % 10 for value in x),
    "swap-pairs": lambda x: tuple(
        x[place ^ 1] if place ^ 1 < len(x) else x[place] for place in range(len(x))
    ),
    "negate-odd": lambda x: tuple(9 - v if place % 2 else v for place, v in enumerate(x)),
}
SKILL_NAMES: Final = tuple(SKILLS)


class Asked(Protocol):
    """A question about a list of digits, with its right answer."""

    @property
    def question(self) -> str: ...

    @property
    def answer(self) -> Digits: ...


def spell(digits: Sequence[int]) -> str:
    """Write digits as text, separated by spaces."""
    return " ".join(map(str, digits))


def chat(question: str, instruction: str | None = None) -> list[dict[str, str]]:
    """Write a conversation that asks the question, after the instruction if there is one."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [*system, {"role": "user", "content": question}]


Head: TypeAlias = Sequence[Collection[str]]
"""Allowed values of each word in a row of words."""


def strict_reward(completion: str, answer: str, heads: Sequence[Head]) -> float:
    """Return 1 if the completion is a head and a list for each of `heads` and its last list is the answer,
    else 0.

    All lists are as long as the answer.
    """
    tokens = completion.split()
    size = len(answer.split())
    if len(tokens) != sum(len(head) + size for head in heads):
        return 0.0
    start = 0
    for head in heads:
        end = start + len(head) + size
        if any(token not in known for token, known in zip(tokens[start:end], head, strict=False)):
            return 0.0
        digits = tokens[start + len(head) : end]
        if not all(len(digit) == 1 and digit.isdecimal() for digit in digits):
            return 0.0
        start = end
    return float(" ".join(tokens[-size:]) == answer)
