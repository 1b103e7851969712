"""Means with their intervals."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from prompt_coevo.endpoint.scores import Score, difference, score


def test_zeros_and_ones_have_wilsons_interval() -> None:
    """Against a published value: 8 of 10 is [0.490, 0.943]."""
    found = score([1.0] * 8 + [0.0] * 2, 0)
    assert (found.n, found.mean) == (10, 0.8)
    assert found.low == pytest.approx(0.4902, abs=1e-4)
    assert found.high == pytest.approx(0.9433, abs=1e-4)
    alike = score([1.0] * 5, 0)
    assert alike.low is not None
    assert alike.low < 0.6  # five of five is no certainty


def test_other_rewards_are_resampled_by_the_seed() -> None:
    rewards = [0.1, 0.5, 0.9, 0.5] * 3
    found = score(rewards, 0)
    assert found == score(rewards, 0)
    assert found.low is not None
    assert found.high is not None
    assert 0.1 <= found.low < found.mean < found.high <= 0.9
    assert found.mean == pytest.approx(0.5)


def test_a_difference_of_zeros_and_ones_has_newcombes_interval() -> None:
    """Against his own table (1998): of 50 pairs 36, 12, 2 and 0 are [0.0569, 0.3404] apart."""
    before = [1.0] * 36 + [0.0] * 12 + [1.0] * 2
    after = [1.0] * 36 + [1.0] * 12 + [0.0] * 2
    found = difference(before, after, 0)
    assert found.mean == pytest.approx(0.2)
    assert found.low == pytest.approx(0.0569, abs=1e-4)
    assert found.high == pytest.approx(0.3404, abs=1e-4)
    assert str(found).endswith("n = 50")
    back = difference(after, before, 0)
    assert (back.low, back.high) == pytest.approx((-0.3404, -0.0569), abs=1e-4)


@pytest.mark.parametrize("n", [1, 3])
def test_a_few_changes_that_are_all_the_same_are_no_certainty(n: int) -> None:
    found = difference([0.0] * n, [1.0] * n, 0)
    assert found.low is not None
    assert found.low < 0.3
    assert (found.mean, found.high) == (1.0, 1.0)


def test_where_nothing_can_be_said_there_is_no_interval() -> None:
    few = difference([0.0] * 9, [0.5] * 8 + [0.25], 0)
    assert (few.low, few.high) == (None, None)
    assert "(no interval: fewer than 10 questions), n = 9" in str(few)
    alike = difference([0.0] * 20, [0.5] * 20, 0)
    assert alike.to_json() == {"n": 20, "mean": 0.5, "low": None, "high": None}
    assert str(alike) == "0.500 (no interval: all are the same), n = 20"
    assert score([0.5], 0).low is None


def test_many_questions_take_little_memory() -> None:
    tracemalloc.start()
    score([0.25 * (number % 5) for number in range(2_000)], 0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40e6


def paired(rng: np.random.Generator, n: int, gain: float) -> tuple[list[float], list[float]]:
    """Zeros and ones of questions, of which some are solved as a rule and some as a rule not."""
    easy = rng.random(n) < 0.5
    before = rng.random(n) < np.where(easy, 0.8, 0.2)
    after = rng.random(n) < np.where(easy, 0.8, 0.2 + gain)
    return before.astype(float).tolist(), after.astype(float).tolist()


def graded(rng: np.random.Generator, n: int, gain: float) -> tuple[list[float], list[float]]:
    """Rewards between 0 and 1, most of which a candidate leaves as they are and some it lifts."""
    before = rng.beta(2, 3, n)
    after = before + gain * rng.exponential(1.0, n)
    return before.tolist(), after.tolist()


@pytest.mark.parametrize(
    ("pairs", "n", "gain", "truth", "fewest"),
    [
        (paired, 4, 0.0, 0.0, 0.94),
        (paired, 10, 0.6, 0.3, 0.94),
        (paired, 40, 0.4, 0.2, 0.92),
        (graded, 10, 0.2, 0.2, 0.885),
        (graded, 40, 0.2, 0.2, 0.915),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    pairs: Callable[..., tuple[list[float], list[float]]],
    n: int,
    gain: float,
    truth: float,
    fewest: float,
) -> None:
    """Simulated; what is skewed and few falls a little short of 95 %."""
    rng = np.random.default_rng(0)
    found: list[Score] = [difference(*pairs(rng, n, gain), seed) for seed in range(400)]
    held = [
        one.low <= truth <= one.high
        for one in found
        if one.low is not None and one.high is not None
    ]
    assert len(held) == len(found)
    assert sum(held) / len(found) >= fewest
