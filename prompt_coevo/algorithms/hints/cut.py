"""The beginning of a solution."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

Unit: TypeAlias = Literal["words", "lines"]

_UNITS: Final[dict[Unit, re.Pattern[str]]] = {
    "words": re.compile(r"\S+"),
    "lines": re.compile(r"[^\n]*\S[^\n]*"),
}


def beginning(
    solution: str,
    fraction: float,
    unit: Unit,
    count_tokens: Callable[[str], int],
    max_tokens: int,
) -> str:
    """The first `fraction` of a text's words or lines, rounded to the nearest number, spaces kept.

    Of these only as many as `max_tokens` hold. Empty if that leaves none.
    """
    ends = [match.end() for match in _UNITS[unit].finditer(solution)]
    # Half up, so that the nearest number does not depend on which one is even.
    count = min(int(fraction * len(ends) + 0.5), len(ends))
    while count and count_tokens(solution[: ends[count - 1]]) > max_tokens:
        count -= max(1, count // 8)
    return solution[: ends[count - 1]].strip() if count else ""
