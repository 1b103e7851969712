"""Means with their intervals."""

from __future__ import annotations

import pytest

from prompt_coevo.endpoint.scores import difference, score


def test_zeros_and_ones_have_wilsons_interval() -> None:
    """Against a published value: 8 of 10 is [0.490, 0.943]."""
    found = score([1.0] * 8 + [0.0] * 2, 0)
    assert (found.n, found.mean) == (10, 0.8)
    assert found.low == pytest.approx(0.4902, abs=1e-4)
    assert found.high == pytest.approx(0.9433, abs=1e-4)
    assert score([1.0] * 5, 0).low < 0.6  # five of five is no certainty


def test_other_rewards_are_resampled_by_the_seed() -> None:
    rewards = [0.1, 0.5, 0.9, 0.5]
    found = score(rewards, 0)
    assert found == score(rewards, 0)
    assert 0.1 <= found.low < found.mean == 0.5 < found.high <= 0.9


def test_a_difference_is_of_the_same_questions() -> None:
    before, after = [0.0, 0.0, 1.0, 1.0] * 5, [1.0, 0.0, 1.0, 1.0] * 5
    found = difference(before, after, 0)
    assert found.mean == 0.25
    assert 0 < found.low < 0.25 < found.high < 0.5
    assert str(found).endswith("n = 20")
