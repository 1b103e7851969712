"""Compare two texts word by word."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

Manner: TypeAlias = Literal["same", "gone", "new"]
_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS: Final = 4_000
"""Longer texts are compared line by line: word by word would take minutes."""
_MOST_PAIRS: Final = 10_000
"""The most pairs of equal words (or lines), one in each text. With more the comparison may take minutes:
its time grows with their number times the length."""


class Piece(NamedTuple):
    """A piece of text that is in both texts, only in the old one, or only in the new one."""

    manner: Manner
    text: str


def pieces(old: str, new: str) -> list[Piece]:
    """Merge two texts: the pieces that are not `new` are the old text, those not `gone` the new one."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    words = (one for one in before if not one.isspace())
    if max(len(before), len(after)) > _MOST_WORDS or _pairs(words, after) > _MOST_PAIRS:
        before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
        if _pairs(before, after) > _MOST_PAIRS:
            before, after = [old], [new]
    return list(_pieces(before, after))


def _pairs(before: Iterable[str], after: list[str]) -> int:
    """Count the pairs of equal elements, one from each text."""
    there = Counter(after)
    return sum(there[one] for one in before)


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
