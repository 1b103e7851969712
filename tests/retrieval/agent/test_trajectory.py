"""Check the tokens of an episode: none lost, none cut, no observation trained on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.retrieval.agent.trajectory import Trajectory

ids = st.lists(st.integers(0, 1000), max_size=6)


def own_turns(trajectory: Trajectory) -> list[list[int]]:
    return [trajectory.completion_ids[first:end] for first, end in trajectory.own_ranges]


def test_by_hand() -> None:
    trajectory = Trajectory([1, 2])
    trajectory.sampled([3, 4], [-0.1, -0.2])
    trajectory.observed([5, 6, 7])
    trajectory.sampled([8], [-0.3])
    assert trajectory.ids == [1, 2, 3, 4, 5, 6, 7, 8]
    assert trajectory.completion_ids == [3, 4, 5, 6, 7, 8]
    assert trajectory.mask == [1, 1, 0, 0, 0, 1]
    assert trajectory.log_probs == [-0.1, -0.2, 0.0, 0.0, 0.0, -0.3]
    assert own_turns(trajectory) == [[3, 4], [8]]


def test_a_prompt_is_copied() -> None:
    prompt = [1, 2]
    trajectory = Trajectory(prompt)
    trajectory.sampled([3])
    assert prompt == [1, 2]
    assert trajectory.prompt_ids == [1, 2]


def test_without_log_probs_there_are_none() -> None:
    trajectory = Trajectory([1])
    trajectory.sampled([2], [-0.1])
    trajectory.sampled([3])
    trajectory.observed([4])
    trajectory.sampled([5], [-0.1])
    assert trajectory.log_probs is None
    assert trajectory.mask == [1, 1, 0, 1]


def test_log_probs_of_other_ids_are_refused() -> None:
    trajectory = Trajectory([1])
    with pytest.raises(ValueError, match="2 ids were sampled, but with 1 log-probs"):
        trajectory.sampled([2, 3], [-0.1])
    assert trajectory.completion_ids == []


def test_room_is_what_is_left_and_the_prompt_is_never_cut() -> None:
    trajectory = Trajectory([1, 2, 3])
    assert trajectory.room(10) == 7
    trajectory.sampled([4, 5])
    trajectory.observed([6])
    assert trajectory.room(10) == 4
    assert trajectory.room(6) == 0
    assert trajectory.room(2) == 0
    assert trajectory.prompt_ids == [1, 2, 3]


@given(ids, st.lists(st.tuples(st.booleans(), ids), max_size=8))
def test_every_id_is_there_and_known_as_what_it_is(
    prompt: list[int], spans: list[tuple[bool, list[int]]]
) -> None:
    trajectory = Trajectory(prompt)
    for own, span in spans:
        if own:
            trajectory.sampled(span, [-float(i) - 1 for i in span])
        else:
            trajectory.observed(span)
    completion = [i for _, span in spans for i in span]
    assert trajectory.ids == prompt + completion
    assert trajectory.mask == [int(own) for own, span in spans for _ in span]
    assert trajectory.log_probs == [
        -float(i) - 1 if own else 0.0 for i, own in zip(completion, trajectory.mask, strict=True)
    ]
    assert own_turns(trajectory) == [span for own, span in spans if own]
    assert trajectory.room(100) == 100 - len(prompt) - len(completion)
