"""Rewards of rollouts outside training: a reward function that accepts `coevo_search` is told so."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from torch import nn

TOLD: Final = "coevo_search"
"""The keyword that a reward function gets as True, in search and verification alone."""


def told_of_search(functions: Sequence[object]) -> list[object]:
    """Return a trainer's reward functions, with the keyword for those that accept it."""
    return [_told(one) if callable(one) and _accepts(one) else one for one in functions]


def _told(function: Callable[..., Any]) -> Callable[..., Any]:
    """Stay what TRL looks at: a function that is awaited, or one that is not."""

    async def awaited(**arguments: Any) -> Any:
        return await function(**arguments, **{TOLD: True})

    def called(**arguments: Any) -> Any:
        return function(**arguments, **{TOLD: True})

    is_async = inspect.iscoroutinefunction(function)
    return awaited if is_async or inspect.iscoroutinefunction(type(function).__call__) else called


def _accepts(function: Callable[..., Any]) -> bool:
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
