"""Every parser and loader of retrieval takes a few hundred inputs from a fuzzer, the same ones each time.

The long run, with coverage guidance: `python benchmarks/fuzz.py retrieval`.
"""

from __future__ import annotations

import pytest

from fuzz.retrieval.every import TARGETS
from fuzz.target import inputs

INPUTS = 300


@pytest.mark.parametrize("name", TARGETS)
def test_it_raises_nothing_but_what_it_promises(name: str) -> None:
    target = TARGETS[name]
    for data in inputs(target, 20 + int(INPUTS * min(1.0, target.weight)), seed=1):
        target.run(data)
