"""Saying where two runs part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def same(one: Any, other: Any, what: str) -> None:
    """Raise AssertionError unless both are equal; it names the first place where they differ."""
    place = _difference(one, other, "")
    assert place is None, f"{what}; the first difference{place}"


def _difference(one: Any, other: Any, where: str) -> str | None:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}, key=str):
            if key not in one or key not in other:
                return f" is at {where}/{key}, which only one has"
            if (found := _difference(one[key], other[key], f"{where}/{key}")) is not None:
                return found
        return None
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            if (found := _difference(mine, theirs, f"{where}/{place}")) is not None:
                return found
        return None if len(one) == len(other) else f" is at {where}: {len(one)} and {len(other)}"
    return None if one == other else f" is at {where or '/'}: {one!r:.200} and {other!r:.200}"
