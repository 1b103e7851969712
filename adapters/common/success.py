"""The reward that decides whether a rollout succeeded, on a scale from 0 to 1."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.markers import PROJECT
from prompt_coevo.registry import nearest
from prompt_coevo.settings.success import SuccessSettings

logger = logging.getLogger(PROJECT)

SUM: Final = "sum"
"""Given in place of a reward function's name: the trainer's weighted sum of all."""
_ENOUGH: Final = 64
"""A run ends if none of its first 64 rollouts has the deciding reward."""
_OBVIOUS: Final = re.compile(
    r"(?!.*(format|tag|length))(.*_)?(acc|accuracy|correct|correctness|solved|exact_match)(_.*)?"
)


def deciding_function(names: Sequence[str], settings: SuccessSettings) -> int | None:
    """Return the index of the reward function that decides on success; None means their weighted sum.

    If `success.reward` names none of several, the one with an obvious name decides (`tell_choice` logs
    it). Raises SettingsError, listing the names, if none or several qualify.
    """
    wanted = settings.reward
    if wanted == SUM and SUM not in names:
        return None
    if wanted is None and len(names) == 1:
        return 0
    listed = ", ".join(names)
    if wanted is None:
        found = [n for n, name in enumerate(names) if _OBVIOUS.fullmatch(_in_words(name))]
        if len(found) == 1:
            return found[0]
        if len(set(names)) < len(names):
            raise SettingsError(
                f"there are several reward functions ({listed}), some of one name; give them different "
                "names, and set success.reward to that of the one that says whether an answer is right"
            )
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
    hint = nearest(wanted, names, "")
    raise SettingsError(
        f"success.reward = {wanted!r} names no reward function; there are {listed}{hint}"
    )


def tell_choice(
    names: Sequence[str], decides: int | None, settings: SuccessSettings, note: Callable[..., None]
) -> None:
    """Log and journal which of several reward functions `deciding_function` chose by its name."""
    if settings.reward is not None or decides is None or len(names) == 1:
        return
    note("reward_chosen", reward=names[decides], among=list(names))
    logger.warning(
        "of the reward functions %s, %s decides whether a rollout succeeded; to say so, or to choose "
        "another, set success.reward",
        ", ".join(names),
        names[decides],
    )


def _in_words(name: str) -> str:
    """Write `AccuracyReward` and `my-accuracy` as `accuracy_reward` and `my_accuracy`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name).lower()


def scaled(reward: float, settings: SuccessSettings) -> float:
    """Put a deciding reward on the scale from 0 (`success.low`) to 1 (`success.high`).

    Trainers keep rewards in single precision, where .9 becomes slightly less; hence the six digits.
    """
    if settings.low == 0 and settings.high == 1:
        return reward
    return round((reward - settings.low) / (settings.high - settings.low), 6)


class Success:
    """The deciding reward, by the settings: the trainer's own, or one of the values that came with it.

    `where` names the place of these values, for errors.
    """

    def __init__(self, settings: SuccessSettings, where: str) -> None:
        self._settings = settings
        self._where = where
        self._missing = 0
        self._known: dict[str, None] = {}

    def of(self, own: object, values: Mapping[str, object]) -> float:
        """Return a rollout's deciding reward, from 0 to 1, or NaN if `values` lack it. `own` is not None.

        Raises HostError if it is not a number, or if the first 64 rollouts all lack it.
        """
        name = self._settings.reward
        found = own if name is None else values.get(name)
        if found is not None:
            self._missing = -1
            return scaled(self._number(found), self._settings)
        if self._missing >= 0:
            self._missing += 1
            self._known.update(dict.fromkeys(map(str, values)))
            if self._missing == _ENOUGH:
                known = ", ".join(self._known) or "nothing"
                raise HostError(
                    f"none of the first {_ENOUGH} rollouts has success.reward = {name!r} in "
                    f"{self._where}; they have {known}; name one of these, or leave it out"
                )
        return math.nan

    def _number(self, found: Any) -> float:
        kind = type(found).__name__
        try:
            if hasattr(found, "flatten"):  # a tensor or an array
                (found,) = found.flatten()
            elif isinstance(found, list):  # from a reward server
                (found,) = found
            if not isinstance(found, str | bytes):
                return float(found)
        except (TypeError, ValueError, OverflowError):
            pass
        if (name := self._settings.reward) is None:
            raise HostError(
                f"the reward of a rollout is a {kind}; give it a number, or name another in success.reward"
            )
        raise HostError(f"success.reward = {name!r} is a {kind} in {self._where}; give it a number")
