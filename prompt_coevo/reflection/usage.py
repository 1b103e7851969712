"""What a call cost, as a backend says it: only numbers that can be added up and written down."""

from __future__ import annotations

from prompt_coevo.proposals import Usage

_MOST = 1e12
"""Of tokens or dollars in one call; more is no price."""


def plausible(usage: object) -> Usage:
    """The usage with 0 in place of what is missing, no number, not finite, negative, or absurdly large."""
    return Usage(
        prompt_tokens=int(_number(usage, "prompt_tokens")),
        completion_tokens=int(_number(usage, "completion_tokens")),
        usd=_number(usage, "usd"),
    )


def _number(usage: object, name: str) -> float:
    try:
        number = float(getattr(usage, name, 0))
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if 0 <= number <= _MOST else 0.0
