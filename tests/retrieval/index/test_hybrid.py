from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.retrieval.fusion import fuse

RANKINGS = st.lists(
    st.lists(st.integers(0, 9), unique=True).map(lambda rows: [(row, 0.5) for row in rows]),
    max_size=4,
)


def test_scores_are_sums_of_reciprocal_ranks() -> None:
    fused = fuse([[(7, 3.0), (8, 2.0)], [(8, 0.9), (9, 0.1)]], 3)
    assert [row for row, _ in fused] == [8, 7, 9]
    assert [score for _, score in fused] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])


def test_of_equals_the_first_row_comes_first() -> None:
    assert [row for row, _ in fuse([[(5, 1.0), (2, 0.5)], [(2, 1.0), (5, 0.5)]], 2)] == [2, 5]


def test_a_row_counts_once_in_a_ranking() -> None:
    assert fuse([[(1, 2.0), (1, 1.0), (2, 0.0)]], 9) == [(1, 1 / 61), (2, 1 / 62)]


def test_nothing_is_fused_to_nothing() -> None:
    assert fuse([], 3) == []
    assert fuse([[], []], 3) == []


@given(RANKINGS, st.integers(1, 12))
def test_the_order_of_the_rankings_does_not_matter(
    rankings: list[list[tuple[int, float]]], k: int
) -> None:
    fused = fuse(rankings, k)
    assert fused == fuse(rankings[::-1], k)
    assert len(fused) == min(k, len({row for ranking in rankings for row, _ in ranking}))
    assert fused == sorted(fused, key=lambda hit: (-hit[1], hit[0]))
    assert all(0 < score <= len(rankings) / 61 + math.ulp(1) for _, score in fused)
