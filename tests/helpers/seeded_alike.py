"""Let two ranks work that are seeded alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def on_two_ranks(work: Callable[[], Result]) -> tuple[Result, Result]:
    """Return what each rank's work returns; check that none draws from the global generator."""
    before = random.getstate()

    def on_a_rank() -> Result:
        random.seed(0)
        seeded = random.getstate()
        result = work()
        assert random.getstate() == seeded, "the global random generator was used"
        return result

    try:
        return on_a_rank(), on_a_rank()
    finally:
        random.setstate(before)
