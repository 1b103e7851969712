from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.adapters.common.distill import shift_ranges, swap_prompts


def test_distilled_rows_get_the_questions_tokens() -> None:
    swapped = swap_prompts([[1, 2, 3], [4, 5], [6, 7, 8]], [[1], [6]], [True, False, True])
    assert swapped == [[1], [4, 5], [6]]


def test_nothing_distilled_changes_nothing() -> None:
    assert swap_prompts([[1, 2], [3]], [], [False, False]) == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("train", "flags"), [([], [True, False]), ([[1], [2]], [True, False]), ([[1]], [True])]
)
def test_numbers_that_do_not_fit_are_refused(train: list[list[int]], flags: list[bool]) -> None:
    with pytest.raises(ValueError, match="do not fit together"):
        swap_prompts([[1], [2]], train, flags)


def test_ranges_move_by_the_difference_of_the_prompts() -> None:
    # 10 prompt tokens become 4: everything after them is 6 earlier.
    assert shift_ranges([(10, 15), (20, 22)], 10, 4) == [(4, 9), (14, 16)]
    assert shift_ranges([(10, 15)], 10, 12) == [(12, 17)]
    assert shift_ranges([], 10, 4) == []


def test_a_range_inside_the_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="inside the prompt of 10 tokens"):
        shift_ranges([(9, 15)], 10, 4)


TOKENS = st.lists(st.integers(0, 99))


@given(TOKENS, TOKENS, TOKENS, TOKENS)
def test_ranges_still_cut_out_the_same_tokens(
    rollout: list[int], train: list[int], first: list[int], second: list[int]
) -> None:
    start, middle = len(rollout), len(rollout) + len(first)
    ranges = [(start, middle), (middle, middle + len(second))]
    before, after = rollout + first + second, train + first + second
    for old, new in zip(ranges, shift_ranges(ranges, len(rollout), len(train)), strict=True):
        assert after[slice(*new)] == before[slice(*old)]
