"""Compute the metrics of one round for the trainer's log."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prompt_coevo.types import OfRound, Rollout


def round_numbers(
    rollouts: Sequence[Rollout], hard: Collection[str], solved_at: float
) -> dict[str, float]:
    """Return the share of rollouts under a template, and rewards and shares solved with and without one.

    Those are for all questions, the shares solved also for the questions that were `hard` before the round.
    `hard_covered` is the share of hard groups with templates in which a templated rollout solved the
    question. Metrics without any rollout are left out.
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
