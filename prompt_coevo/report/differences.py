"""What one text has otherwise than another, word by word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

Manner: TypeAlias = Literal["same", "gone", "new"]
_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS: Final = 4_000
"""Texts of more are compared line by line: words would take minutes."""


class Piece(NamedTuple):
    """A stretch of text: in both, in the old one alone, or in the new one alone."""

    manner: Manner
    text: str


def pieces(old: str, new: str) -> list[Piece]:
    """The two texts as one: what is not `new` is the old text, what is not `gone` the new one."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    if max(len(before), len(after)) > _MOST_WORDS:
        before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return list(_pieces(before, after))


def _pieces(before: list[str], after: list[str]) -> Iterator[Piece]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            yield Piece("same", "".join(before[i1:i2]))
            continue
        if i2 > i1:
            yield Piece("gone", "".join(before[i1:i2]))
        if j2 > j1:
            yield Piece("new", "".join(after[j1:j2]))
