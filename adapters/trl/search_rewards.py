"""Tell reward functions that accept `coevo_search` that they score rollouts outside training."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from torch import nn

TOLD: Final = "coevo_search"
"""The keyword that a reward function gets as True, only in search and verification."""
_Reward: TypeAlias = Callable[..., Any]
"""A reward function: it returns scores, or an awaitable of scores."""


def told_of_search(functions: Sequence[object]) -> list[object]:
    """Return a trainer's reward functions, with the keyword bound in those that accept it."""
    return [_told(one) if callable(one) and _accepts(one) else one for one in functions]


def _told(function: _Reward) -> _Reward:
    """Bind the keyword. Keep an async function async and a plain one plain, because TRL checks that."""

    async def awaited(**arguments: Any) -> Any:
        return await function(**arguments, **{TOLD: True})

    def called(**arguments: Any) -> Any:
        return function(**arguments, **{TOLD: True})

    is_async = inspect.iscoroutinefunction(function)
    return awaited if is_async or inspect.iscoroutinefunction(type(function).__call__) else called


def _accepts(function: _Reward) -> bool:
    if isinstance(function, nn.Module):  # a reward model
        return False
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # no signature can be read
        return False
    by_name = parameters.get(TOLD)
    if by_name is not None:
        return by_name.kind in (by_name.KEYWORD_ONLY, by_name.POSITIONAL_OR_KEYWORD)
    return any(one.kind is one.VAR_KEYWORD for one in parameters.values())
