"""Choose when a run is disturbed, by its files instead of a clock, which is useless on a busy machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from evidence import RECORD, TEACHER, lines

Reached = Callable[[], bool]

NAMES: Final = ("any", "search", "save")


def planned(folder: Path) -> int:
    """Return how many rounds have been planned, in all attempts."""
    return sum(line["event"] == "plan" for line in lines(folder / RECORD))


def some_rounds_on(folder: Path, rng: random.Random, most: int) -> Reached:
    """Return a check that holds once up to `most` more rounds have been planned."""
    until = planned(folder) + rng.randint(1, most)
    return lambda: planned(folder) >= until


def search_under_way(folder: Path, rng: random.Random) -> Reached:
    """Return a check that holds once a few more calls have begun and the last is unanswered."""
    calls = folder / TEACHER
    until = sum("asked" in line for line in lines(calls)) + rng.randint(1, 3)

    def now() -> bool:
        told = list(lines(calls))
        begun = sum("asked" in line for line in told)
        return begun >= until and 2 * begun > len(told)

    return now


def save_under_way(unfinished: Callable[[], Iterable[Path]]) -> Reached:
    """Return a check that holds once an incomplete checkpoint is new or was written to."""
    before = set(_state_of(unfinished()))
    return lambda: not before.issuperset(_state_of(unfinished()))


def _state_of(folders: Iterable[Path]) -> Iterable[tuple[str, int]]:
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            try:
                yield str(path), path.stat().st_mtime_ns
            except FileNotFoundError:  # renamed just now
                continue
