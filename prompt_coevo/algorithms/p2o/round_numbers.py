"""The numbers of one round for the host's log."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo.types import Rollout


def round_numbers(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """The share of rollouts under a template, and the mean reward with and without one."""
    under: dict[bool, list[Rollout]] = {True: [], False: []}
    for rollout in rollouts:
        under[rollout.assignment.templated].append(rollout)
    numbers = {"templated_fraction": len(under[True]) / len(rollouts) if rollouts else 0.0}
    for name, chosen in (("templated", under[True]), ("untemplated", under[False])):
        judged = [rollout.reward for rollout in chosen if rollout.fit]
        if judged:
            numbers[f"reward_{name}"] = sum(judged) / len(judged)
    return numbers
