"""The numbers of one round for the host's log."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prompt_coevo.types import OfRound, Rollout


def round_numbers(
    rollouts: Sequence[Rollout], hard: Collection[str], solved_at: float
) -> dict[str, float]:
    """The share of rollouts under a template; mean rewards and shares of solved rollouts with and
    without one, of all questions and of those that were `hard` before the round. `hard_covered` is the
    share of hard groups with templates in which one of the rollouts under them is solved.

    A number that no rollout speaks for is left out.
    """
    templated = sum(rollout.assignment.templated for rollout in rollouts)
    numbers = {"templated_fraction": templated / len(rollouts) if rollouts else 0.0}
    for name, under in (("templated", True), ("untemplated", False)):
        judged = [one for one in rollouts if one.fit and one.assignment.templated is under]
        of_hard = [one.reward for one in judged if one.assignment.question_id in hard]
        rewards = [one.reward for one in judged]
        if rewards:
            numbers[f"reward_{name}"] = sum(rewards) / len(rewards)
            numbers[f"solved_{name}"] = _share(rewards, solved_at)
        if of_hard:
            numbers[f"hard_solved_{name}"] = _share(of_hard, solved_at)
    best: dict[tuple[str, int], float] = {}
    for one in rollouts:
        if one.fit and one.assignment.templated and one.assignment.question_id in hard:
            group = (one.assignment.question_id, one.assignment.group)
            best[group] = max(one.reward, best.get(group, one.reward))
    if best:
        numbers["hard_covered"] = _share(list(best.values()), solved_at)
    return {name: OfRound(number) for name, number in numbers.items()}


def _share(rewards: Sequence[float], solved_at: float) -> float:
    return sum(reward >= solved_at for reward in rewards) / len(rewards)
