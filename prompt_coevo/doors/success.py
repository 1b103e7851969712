"""The reward that decides whether a rollout succeeded, on a scale from 0 to 1."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.markers import PROJECT
from prompt_coevo.settings.success import SuccessSettings

logger = logging.getLogger(PROJECT)

SUM: Final = "sum"
"""In place of a reward function's name: the trainer's weighted sum of all."""
_OBVIOUS: Final = re.compile(r"(^|_)(acc|accuracy|correct|correctness|solved|exact_match)(_|$)")


def deciding_function(names: Sequence[str], settings: SuccessSettings) -> int | None:
    """Return which of a trainer's reward functions decides; None stands for their weighted sum.

    Of several, with none named by `success.reward`, the one with an obvious name, which is logged. Raises
    SettingsError, with the names that there are, where none or several are it.
    """
    wanted = settings.reward
    if wanted == SUM and SUM not in names:
        return None
    if wanted is None and len(names) == 1:
        return 0
    listed = ", ".join(names)
    if wanted is None:
        found = [n for n, name in enumerate(names) if _OBVIOUS.search(name.lower())]
        if len(found) == 1:
            logger.info(
                "of the reward functions %s, %s decides whether a rollout succeeded (success.reward)",
                listed,
                names[found[0]],
            )
            return found[0]
        raise SettingsError(
            f"there are several reward functions ({listed}), and none is named as the one that says "
            f"whether an answer is right; set success.reward to its name, or to {SUM!r} for their weighted "
            "sum"
        )
    found = [n for n, name in enumerate(names) if name == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise SettingsError(
            f"success.reward = {wanted!r} names {len(found)} reward functions; give them different names"
        )
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise SettingsError(
        f"success.reward = {wanted!r} names no reward function; there are {listed}{hint}"
    )


def scaled(reward: float, settings: SuccessSettings) -> float:
    """Put a deciding reward on the scale from 0 (`success.low`) to 1 (`success.high`)."""
    return (reward - settings.low) / (settings.high - settings.low)


def reported(values: Mapping[str, Any] | None, name: str, where: str) -> float:
    """Read the deciding reward among what came with a rollout's reward.

    `where` names the place, for the error. Raises HostError if it is not there, or is no number.
    """
    found = (values or {}).get(name)
    if isinstance(found, str | bytes) or found is None:
        known = ", ".join(map(str, values or ())) or "nothing"
        raise HostError(
            f"success.reward = {name!r} is not a number in {where}, which has {known}; name one of these, "
            "or leave it out"
        )
    if hasattr(found, "flatten"):  # a tensor or an array of one number
        found = found.flatten()[0]
    try:
        return float(found)
    except (TypeError, ValueError):
        raise HostError(
            f"success.reward = {name!r} is a {type(found).__name__} in {where}; give it a number"
        ) from None
