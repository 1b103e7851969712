"""Repeat work with the global random generator seeded alike, as it is on the ranks of a run."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def twice_seeded_alike(work: Callable[[], Result]) -> tuple[Result, Result]:
    """Return both results; check that neither draws from the global generator."""
    before = random.getstate()

    def once() -> Result:
        random.seed(0)
        seeded = random.getstate()
        result = work()
        assert random.getstate() == seeded, "the global random generator was used"
        return result

    try:
        return once(), once()
    finally:
        random.setstate(before)
