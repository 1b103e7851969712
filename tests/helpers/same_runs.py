"""Compare two runs up to rounding.

Sums over the rows of a batch in another order differ in the last bits, and which requests share a batch
depends on how busy the machine is. Rounding would separate values on both sides of a rounding boundary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from prompt_coevo.smoke.checks import GHOST_OF_BARE, GHOST_OF_TRAINING

Rows = dict[tuple[Any, ...], list[list[float]]]


def rows_by(rows: Iterable[Mapping[str, Any]], exact: Sequence[str], near: Sequence[str]) -> Rows:
    """Group the numbers in the columns `near`, one list a row, by the columns `exact`."""
    found: Rows = defaultdict(list)
    for row in rows:
        key = tuple(tuple(row[n]) if isinstance(row[n], list) else row[n] for n in exact)
        found[key].append([value for name in near for value in row[name]])
    return {key: sorted(values) for key, values in found.items()}


def check_same_rows(one: Rows, other: Rows) -> None:
    assert one.keys() == other.keys()
    for key, rows in one.items():
        assert len(rows) == len(other[key]), key
        for values, others in zip(rows, other[key], strict=True):
            assert values == pytest.approx(others, abs=1e-3), key


def furthest(weights: Mapping[str, Any], others: Mapping[str, Any]) -> float:
    """Return the greatest difference between the weights of two policies."""
    assert weights.keys() == others.keys()
    return max(float((weights[name] - others[name]).abs().max()) for name in weights)


def check_no_further(distance: float, of_bare_runs: float, trained: float) -> None:
    """Check that a run ends no further from a bare one than twice another bare run, or than rounding goes.

    `trained` is the distance that training goes. Two bare runs that differ by a tenth of it show nothing.
    """
    limit = min(max(GHOST_OF_BARE * of_bare_runs, GHOST_OF_TRAINING * trained), 0.1 * trained)
    assert distance <= limit, f"the distance {distance:.2g} is above {limit:.2g}"
