"""A reward that raises in rollouts for the engine."""

from __future__ import annotations

from prompt_coevo.testing.door.laboratory import Laboratory
from prompt_coevo.testing.door.laws.law import law
from prompt_coevo.testing.door.run import Run, expect


@law("failing rewards")
def a_reward_that_raises_ends_the_call_alone(laboratory: Laboratory) -> None:
    """Where the reward raises in rollouts for the engine, every call for rollouts raises, and the host
    trains as one that was not asked."""
    run = laboratory.failing
    _check_calls(run)
    _check_training(run, laboratory.silent)


@law("failing rewards", "ranks")
def ranks_stay_in_step_where_a_reward_raises(laboratory: Laboratory) -> None:
    """Where the reward raises on one of two processes, every call for rollouts raises, and both train on
    with equal weights, as they do with a reward that works."""
    run = laboratory.failing_on_a_rank
    _check_calls(run)
    _check_training(run, laboratory.on_two_ranks)
    weights = set(run.record.rank_weights)
    expect(
        len(weights) == 1,
        f"after calls that failed the ranks have {len(weights)} different weights",
    )


def _check_calls(run: Run) -> None:
    expect(
        not run.asked,
        "a call for rollouts was answered, though their reward raised: let the call raise",
    )
    expect(
        bool(run.told("refused")),
        "no call for rollouts was made, or the reward did not raise in it",
    )


def _check_training(run: Run, other: Run) -> None:
    expect(
        run.record.updates == other.record.updates,
        f"after calls that failed the host made the updates {run.record.updates}, not "
        f"{other.record.updates}",
    )
    expect(
        run.sampled("train") == other.sampled("train"),
        "after calls that failed the host samples other rows for its batches",
    )
    expect(
        run.record.weights == other.record.weights,
        "after calls that failed the host ends with other weights",
    )
