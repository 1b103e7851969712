from __future__ import annotations

import pytest

from prompt_coevo.engine import rounds
from prompt_coevo.engine.rounds import OpenRounds
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Rollout


def plan(number: int, groups: int = 1) -> list[Assignment]:
    return [Assignment(f"q{group}", round=number, group=group) for group in range(groups)]


def rollouts(planned: list[Assignment]) -> list[Rollout]:
    return [Rollout(assignment, "", 1.0) for assignment in planned]


def test_many_small_rounds_may_be_under_way() -> None:
    """A trainer that replaces single groups opens a round for each."""
    open_rounds = OpenRounds()
    plans = [plan(number) for number in range(1000)]
    for number, planned in enumerate(plans):
        open_rounds.open(number, planned)
    returned = [rollout for planned in reversed(plans) for rollout in rollouts(planned)]
    assert len(open_rounds.close(returned)) == 1000


def test_the_oldest_are_forgotten_by_their_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_KEPT_ROLLOUTS", 6)
    open_rounds = OpenRounds()
    plans = [plan(number, groups=3) for number in range(3)]
    for number, planned in enumerate(plans):
        open_rounds.open(number, planned)
    assert len(open_rounds.close(rollouts(plans[1]))) == 3
    with pytest.raises(HostError, match="never planned"):
        open_rounds.close(rollouts(plans[0]))
    open_rounds.open(3, plan(3, groups=3))  # closed rounds no longer count
    assert len(open_rounds.close(rollouts(plans[2]))) == 3


def test_one_round_is_kept_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_KEPT_ROLLOUTS", 2)
    open_rounds = OpenRounds()
    open_rounds.open(0, plan(0, groups=5))
    assert len(open_rounds.close(rollouts(plan(0, groups=5)))) == 5
