"""What a call cost, as a backend says it: only numbers that can be added up and written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prompt_coevo.proposals import Usage

_MOST = 1e12
"""Of tokens or dollars in one call; more is no price."""


def plausible(usage: object) -> Usage:
    """The usage with 0 in place of what is missing, no number, not finite, negative, or absurdly large."""
    return Usage(
        prompt_tokens=int(_plausible(getattr(usage, "prompt_tokens", 0))),
        completion_tokens=int(_plausible(getattr(usage, "completion_tokens", 0))),
        usd=_plausible(getattr(usage, "usd", 0)),
    )


def plausible_number(record: Mapping[str, Any], name: str) -> float:
    """A number of a record, likewise."""
    return _plausible(record.get(name, 0))


def _plausible(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if 0 <= number <= _MOST else 0.0
