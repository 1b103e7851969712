"""Compare two runs up to rounding.

Sums over the rows of a batch in another order differ in the last bits, and which requests share a batch
depends on how busy the machine is. Rounding would separate values on both sides of a rounding boundary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

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
