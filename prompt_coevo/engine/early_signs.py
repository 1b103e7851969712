"""Warn, once for each sign, if the first rounds show that nothing can be learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prompt_coevo.engine.run_context import RunContext
from prompt_coevo.types import Group

ROUNDS: Final = 4
"""Examine this many rounds at least."""
FEWEST: Final = 32
"""Examine more rounds until there are this many rollouts."""
_SLACK: Final = 1e-6
_MANY: Final = 0.1
"""The share of groups without any reward from which on that is a sign. A failed tool rarely spoils one."""


class EarlySigns:
    """Examine the deciding rewards of the first rounds and warn of signs that the run is useless."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._rounds = 0
        self._judged = False
        self._rewards: list[float] = []
        self._missing = self._groups = self._groups_without = 0
        self._varied = False
        self._told_scale = False

    def look_no_more(self) -> None:
        """Stop examining: a resumed run was examined when it began, if it was long enough."""
        self._judged = True

    def observe(self, groups: Sequence[Group]) -> None:
        """Take in a round. After the last examined one, log the signs."""
        if self._judged:
            return
        self._rounds += 1
        for group in groups:
            rewards = [one.reward for one in group.rollouts if one.fit]
            self._missing += len(group.rollouts) - len(rewards)
            self._groups += 1
            self._groups_without += not rewards
            self._rewards += rewards
            self._varied |= len(set(rewards)) > 1
        if (said := self._outside()) is not None and not self._told_scale:
            self._told_scale = True
            self._context.warn_early("reward_outside_scale", said)
        if self._rounds >= ROUNDS and len(self._rewards) + self._missing >= FEWEST:
            self._judged = True
            for sign, sentence in self._signs():
                self._context.warn_early(sign, sentence)

    def _outside(self) -> str | None:
        """Describe rewards outside the scale of the thresholds. Return None if they are inside."""
        if not self._rewards:
            return None
        lowest, highest = min(self._rewards), max(self._rewards)
        if lowest >= -_SLACK and highest <= 1 + _SLACK:
            return None
        success = self._context.settings.success
        return (
            f"deciding rewards go from {self._given(lowest)} to {self._given(highest)}, "
            f"outside success.low = {success.low:g} and "
            f"success.high = {success.high:g}, so thresholds mean something else; set these two to the "
            "rewards of a wrong and of a right answer"
        )

    def _signs(self) -> Iterator[tuple[str, str]]:
        total = len(self._rewards) + self._missing
        after = f"after {self._rounds} rounds, {total} rollouts"
        if not self._rewards:
            if total:
                yield (
                    "no_rewards",
                    f"{after}: none has a reward, so no question can be judged; look at the reward "
                    "function",
                )
        elif min(self._rewards) == max(self._rewards):
            number = len(self._rewards)
            those = f"each of the {number} that have one" if self._missing else "every one"
            yield (
                "reward_never_moves",
                f"{after}: the deciding reward is {self._given(self._rewards[0])} for {those}; if some "
                "should have succeeded or failed, look at the reward function, or name another by "
                "success.reward",
            )
        elif not self._varied:
            yield (
                "no_spread",
                f"{after}: within every group all deciding rewards are equal, so no group has a gradient; "
                "raise the sampling temperature or the group size",
            )
        if self._rewards and self._groups_without >= self._groups * _MANY:
            yield (
                "groups_without_reward",
                f"after {self._rounds} rounds, {self._groups} groups: in {self._groups_without} no rollout "
                "has the deciding reward, so their questions never become hard; let the reward function "
                "give it for every question, or name another by success.reward",
            )

    def _given(self, reward: float) -> str:
        """Write a reward on the reward function's own scale."""
        success = self._context.settings.success
        return f"{success.low + reward * (success.high - success.low):g}"
