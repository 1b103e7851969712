from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.adapters.openrlhf.distill import exchange_prompt
from prompt_coevo.adapters.openrlhf.host import Response
from prompt_coevo.errors import HostError

TOKENS = st.lists(st.integers(0, 99))


def sampled(tokens: list[int], ranges: list[tuple[int, int]]) -> Response:
    return {
        "prompt": "hint question",
        "observation_tokens": tokens,
        "action_ranges": ranges,
        "rollout_log_probs": None,
    }


@given(TOKENS, TOKENS, TOKENS, TOKENS)
def test_ranges_still_cut_out_the_same_tokens(
    rollout: list[int], train: list[int], first: list[int], second: list[int]
) -> None:
    start, middle = len(rollout), len(rollout) + len(first)
    ranges = [(start, middle), (middle, middle + len(second))]
    before = rollout + first + second
    response = sampled(list(before), ranges)
    exchange_prompt(response, rollout, "question", train)
    assert response["observation_tokens"] == train + first + second
    for old, new in zip(ranges, response["action_ranges"], strict=True):
        assert response["observation_tokens"][slice(*new)] == before[slice(*old)]


def test_without_tokens_of_the_model_there_is_no_range_to_shift() -> None:
    response = sampled(list(range(10)), [])
    exchange_prompt(response, range(10), "question", [1, 2, 3, 4])
    assert (response["observation_tokens"], response["action_ranges"]) == ([1, 2, 3, 4], [])


@pytest.mark.parametrize("train", [[], [7], [0, 1], [7, 8, 9]])
def test_log_probs_stay_with_their_tokens(train: list[int]) -> None:
    response = sampled([0, 1, 2, 3], [(2, 4)])
    response["rollout_log_probs"] = [0.0, 0.0, -0.5, -0.25]
    exchange_prompt(response, [0, 1], "question", train)
    assert response["observation_tokens"] == [*train, 2, 3]
    assert response["rollout_log_probs"] == [*[0.0] * len(train), -0.5, -0.25]


@pytest.mark.parametrize("ranges", [[(9, 15)], [(10, 12), (9, 15)]])
def test_a_range_inside_the_prompt_is_refused(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(HostError, match="does not begin with the prompt that it was asked for"):
        exchange_prompt(sampled(list(range(15)), ranges), range(10), "question", [1, 2, 3, 4])
