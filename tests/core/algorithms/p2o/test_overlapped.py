"""`p2o.overlap_waves`: three neighbouring waves in one batch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from helpers.searches import Recorder, assert_only_failures_were_shown, learner
from prompt_coevo.types import EMPTY_TEMPLATE, Sampling

OVERLAPPED = {"overlap_waves": True, "front_fill": True, "beam_width": 3}
GREEDY = Sampling(0.0)


def by_sampling(batch: Any) -> Counter[Sampling]:
    return Counter(request.sampling for request in batch)


def test_the_first_batches_by_hand(search: Any, keyed_policy: Any, events: Recorder) -> None:
    """ε on dev; parents; parents and children; then all three. Of equal rollouts none is run twice."""
    policy = keyed_policy(2_000)
    search(policy, hard=2_000, search_budget=400, **OVERLAPPED)
    assert [by_sampling(batch) for batch in policy.batches[:4]] == [
        {GREEDY: 6},
        {Sampling(0.6): 6},
        {Sampling(0.6): 12},
        {Sampling(0.6): 12, GREEDY: 18},
    ]
    parents = {request.parents for requests in events.requests[:3] for request in requests}
    assert parents == {(EMPTY_TEMPLATE,)}  # what the first wave found is scored in the third batch


def test_training_waits_for_a_third_of_the_batches(search: Any, keyed_policy: Any) -> None:
    batches, found = [], []
    for overlap in (False, True):
        policy = keyed_policy(200)
        arms = {**OVERLAPPED, "overlap_waves": overlap, "beam_width": 4}
        result = search(policy, hard=200, search_budget=2_000, **arms)
        batches.append(len(policy.batches))
        found.append(result.accepted)
    assert batches[1] <= batches[0] / 3 + 4
    assert found[1] >= 0.9 * found[0]


@pytest.mark.parametrize("budget", [6, 20, 33, 50, 100, 400])
def test_what_is_under_way_is_paid_and_brought_to_its_end(
    search: Any, keyed_policy: Any, events: Recorder, budget: int
) -> None:
    arms = {**OVERLAPPED, "calls_per_hard": "unlimited"}
    result = search(keyed_policy(40), search_budget=budget, **arms)
    assert result.spent <= budget
    assert result.stopped == "the budget is spent"
    assert result.accepted == sum(accepted for _, accepted in events.verified)
    checked = [candidate for candidate, reason in events.checked if reason is None]
    assert len(events.verified) == len(checked)
    assert budget - result.spent < 2 * 2 + 6


def test_without_calls_left_what_is_under_way_is_still_tried(
    search: Any, keyed_policy: Any, events: Recorder
) -> None:
    result = search(keyed_policy(10), hard=10, search_budget=1_000, **OVERLAPPED)
    assert len(events.asked) == 10
    assert result.stopped == "the calls of this search are used up (p2o.calls_per_hard)"
    passed = [candidate for candidate, reason in events.checked if reason is None]
    assert len(events.verified) == len(passed)
    assert result.accepted == sum(accepted for _, accepted in events.verified) > 0


def test_a_template_under_way_is_known(search: Any, policy: Any, events: Recorder) -> None:
    every = " ".join(f"k{n}" for n in range(40))
    search(policy, lambda prompt: f"<template>{every}</template>", search_budget=200, **OVERLAPPED)
    reasons = [reason for _, reason in events.checked]
    assert reasons[0] is None
    assert set(reasons[1:]) == {"it equals a candidate that is already known"}


def test_waves_without_a_child_end_it(search: Any, policy: Any) -> None:
    result = search(
        policy, lambda prompt: "nothing", search_budget=400, max_barren_waves=3, **OVERLAPPED
    )
    assert result.stopped == "3 waves in a row gave no candidate to try"
    assert not result.failed


def test_a_failing_model_ends_it_with_what_it_has(search: Any, policy: Any) -> None:
    replies = iter(range(100))
    learn = learner()

    def breaking(prompt: str) -> str:
        if next(replies) >= 9:
            raise ConnectionError("no route")
        return learn(prompt)

    result = search(policy, breaking, search_budget=400, **OVERLAPPED)
    assert result.stopped == "the reflection model failed: ConnectionError: no route"
    assert result.failed
    assert result.accepted > 0


@pytest.mark.parametrize("answered", [3, 6, 9])
def test_what_was_accepted_before_the_model_failed_is_scored(
    search: Any, keyed_policy: Any, events: Recorder, answered: int
) -> None:
    replies, learn = iter(range(100)), learner()

    def breaking(prompt: str) -> str:
        if next(replies) >= answered:
            raise ConnectionError("no route")
        return learn(prompt)

    result = search(keyed_policy(200), breaking, hard=200, search_budget=4_000, **OVERLAPPED)
    assert result.failed
    assert len(events.verified) == answered
    assert result.accepted == sum(accepted for _, accepted in events.verified) == answered


def test_an_evaluator_that_raises_ends_it_with_what_it_has(search: Any, keyed_policy: Any) -> None:
    result = search(keyed_policy(40, fail_after=5), search_budget=400, **OVERLAPPED)
    assert result.stopped == "the evaluation failed: RuntimeError: the sampler is gone"
    assert result.failed
    assert result.pool.scores.shape[0] == 1 + result.accepted > 1


def test_only_failures_are_shown(search: Any, policy: Any, events: Recorder) -> None:
    search(policy, search_budget=400, **OVERLAPPED)
    assert_only_failures_were_shown(events)


def test_the_same_seed_gives_the_same_search(search: Any, keyed_policy: Any) -> None:
    results = [search(keyed_policy(40), search_budget=300, **OVERLAPPED) for _ in range(2)]
    texts = [[candidate.text for candidate in result.pool.candidates] for result in results]
    assert texts[0] == texts[1]
