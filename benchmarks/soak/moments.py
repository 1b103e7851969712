"""When a run is disturbed: told by its files, not by a clock, which says nothing on a busy machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from evidence import RECORD, TEACHER, lines

Reached = Callable[[], bool]

NAMES: Final = ("any", "search", "save")


def planned(folder: Path) -> int:
    """How many rounds have been planned, in all attempts."""
    return sum(line["event"] == "plan" for line in lines(folder / RECORD))


def some_rounds_on(folder: Path, rng: random.Random, most: int) -> Reached:
    """Up to `most` rounds have been planned since."""
    until = planned(folder) + rng.randint(1, most)
    return lambda: planned(folder) >= until


def search_under_way(folder: Path, rng: random.Random) -> Reached:
    """A few calls have begun since, and the last one is not answered yet."""
    calls = folder / TEACHER
    until = sum("asked" in line for line in lines(calls)) + rng.randint(1, 3)

    def now() -> bool:
        told = list(lines(calls))
        begun = sum("asked" in line for line in told)
        return begun >= until and 2 * begun > len(told)

    return now


def save_under_way(unfinished: Callable[[], Iterable[Path]]) -> Reached:
    """Something was written into a checkpoint that is not whole; an earlier kill may have left one."""
    before = set(_state_of(unfinished()))
    return lambda: not before.issuperset(_state_of(unfinished()))


def _state_of(folders: Iterable[Path]) -> Iterable[tuple[str, int]]:
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            try:
                yield str(path), path.stat().st_mtime_ns
            except FileNotFoundError:  # renamed just now
                continue
