"""Check every parser and loader of the core with a few hundred fuzzer inputs, the same each time.

The long run, with coverage guidance: `python benchmarks/fuzz.py core`.
"""

from __future__ import annotations

import pytest

from fuzz.core.every import TARGETS
from fuzz.target import inputs

INPUTS = 300


@pytest.mark.parametrize("name", TARGETS)
def test_it_raises_nothing_but_what_it_promises(name: str) -> None:
    target = TARGETS[name]
    for data in inputs(target, 20 + int(INPUTS * min(1.0, target.weight)), seed=1):
        target.run(data)
