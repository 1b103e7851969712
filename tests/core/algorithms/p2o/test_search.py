"""Check Algorithm 3 with a rule-based policy: a template solves "q3" iff it contains "k3"."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.searches import Recorder, assert_only_failures_were_shown, learner
from prompt_coevo import Coevolution, Settings
from prompt_coevo.algorithms.p2o.search import Search
from prompt_coevo.candidates.searches import SearchRequest
from prompt_coevo.errors import HostError
from prompt_coevo.types import EMPTY_TEMPLATE, Question, Rollout, Sampling

LEARNER = learner()


def test_the_first_wave_by_hand(search: Any, policy: Any, events: Recorder) -> None:
    # ε on 6 dev questions, one proposal on 2: parent, child, child on dev. The budget of 16 pays no more.
    result = search(policy, search_budget=16)
    assert [len(batch) for batch in policy.batches] == [6, 2, 2, 6]
    assert (result.spent, result.rollouts, result.overshoot) == (16, 16, 0)
    assert (result.waves, result.proposals, result.accepted) == (1, 1, 1)
    assert result.stopped == "the budget is spent"
    assert not result.failed
    epsilon, child = result.pool.candidates
    assert epsilon is EMPTY_TEMPLATE
    assert child.parents == (EMPTY_TEMPLATE.id,)
    assert child.origin == "propose_improvement"
    minibatch = [request.assignment.question_id for request in policy.batches[1]]
    assert child.text.split() == [question_id.replace("q", "k") for question_id in minibatch]
    (trial, accepted), *rest = events.verified
    assert (trial.parent_rewards, trial.child_rewards, accepted) == ((0.0, 0.0), (1.0, 1.0), True)
    assert not rest


def test_sampling_is_as_the_settings_say(search: Any, policy: Any) -> None:
    search(policy, search_budget=16)
    temperatures = [{request.sampling for request in batch} for batch in policy.batches]
    assert temperatures == [{Sampling(0.0)}, {Sampling(0.6)}, {Sampling(0.6)}, {Sampling(0.0)}]


def test_dev_and_train_share_no_question_and_cover_the_hard_ones(search: Any, policy: Any) -> None:
    search(policy, search_budget=400)
    dev = {
        r.assignment.question_id for b in policy.batches for r in b if r.sampling == Sampling(0.0)
    }
    train = {
        r.assignment.question_id for b in policy.batches for r in b if r.sampling != Sampling(0.0)
    }
    assert len(dev) == 6
    assert not dev & train
    assert train <= {f"q{n}" for n in range(40)}


@pytest.mark.parametrize(("hard", "dev"), [(2, 1), (3, 1), (7, 3), (12, 6), (20, 6)])
def test_dev_is_at_most_half_of_the_hard_questions(
    search: Any, policy: Any, hard: int, dev: int
) -> None:
    assert len(search(policy, hard=hard).pool.sample_ids) == dev


def test_a_wave_is_one_batch_of_each_kind(search: Any, policy: Any, events: Recorder) -> None:
    result = search(policy, search_budget=200, front_fill=True)
    # ε on dev; then parents, children and accepted children of 3 proposals at a time.
    assert len(policy.batches[0]) == 6
    assert result.waves < result.proposals
    assert [len(requests) for requests in events.requests][:3] == [3, 3, 3]
    assert len(policy.batches) <= 1 + 3 * result.waves


def test_never_overspend_and_literal(search: Any, keyed_policy: Any) -> None:
    exact = search(keyed_policy(40), search_budget=50, front_fill=True)
    assert exact.spent <= 50
    assert exact.overshoot == 0
    literal = search(keyed_policy(40), search_budget=50, front_fill=True, overspend="literal")
    assert literal.spent == 50 + literal.overshoot
    assert literal.overshoot > 0


def test_it_only_stops_when_no_further_proposal_can_be_paid(search: Any, policy: Any) -> None:
    result = search(policy, search_budget=100)
    assert 100 - result.spent < 2 * 2 + 6


def test_a_rejected_proposal_costs_the_parents_half(
    search: Any, policy: Any, events: Recorder
) -> None:
    result = search(policy, lambda prompt: "no tags here", max_barren_waves=3)
    assert result.proposals == 3
    assert result.spent == 6 + 3 * 2
    assert result.accepted == 0
    assert result.stopped == "3 waves in a row gave no candidate to try"
    assert [reason for _, reason in events.checked] == [
        "it contains no candidate in the expected tags"
    ] * 3


@pytest.mark.parametrize("hard", [2, 4, 10])
def test_calls_are_limited_by_the_number_of_hard_questions(
    search: Any, keyed_policy: Any, hard: int
) -> None:
    """With the paper's settings, four such questions used to cost 2 749 calls in one search."""
    prompts: list[str] = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return f"<template>useless {len(prompts)}</template>"

    papers = Settings(preset="p2o").p2o.model_dump(exclude_unset=True)
    result = search(keyed_policy(hard), reply, hard=hard, **papers)
    assert len(prompts) == hard
    assert result.stopped == "the calls of this search are used up (p2o.calls_per_hard)"
    assert not result.failed


def test_charges_do_not_depend_on_the_cache(search: Any, keyed_policy: Any) -> None:
    # Two train questions, minibatches of two: every wave shows ε the same two, run only once.
    policy = keyed_policy(4)
    result = search(
        policy, lambda prompt: "nothing", hard=4, max_barren_waves=5, calls_per_hard="unlimited"
    )
    assert result.spent == 2 + 5 * 2
    assert result.rollouts == 2 + 2
    assert policy.rollouts == result.rollouts


def test_a_known_template_is_dropped_before_any_rollout(
    search: Any, policy: Any, events: Recorder
) -> None:
    def stubborn(prompt: str) -> str:
        keys = " ".join(f"k{n}" for n in range(20) if n % 2)
        return f"<template>{keys}</template>"

    result = search(policy, stubborn, search_budget=300)
    assert len({candidate.text for candidate in result.pool.candidates}) == 2
    rejections = {reason for _, reason in events.checked if reason}
    assert rejections == {"it equals a candidate that is already known"}


def test_equal_children_of_one_wave_are_tried_once(
    search: Any, policy: Any, events: Recorder
) -> None:
    search(policy, lambda prompt: "<template>same</template>", front_fill=True, search_budget=40)
    first_wave = [reason for _, reason in events.checked[:3]]
    assert first_wave == [
        None,
        "it equals a candidate that is already known",
        "it equals a candidate that is already known",
    ]


def test_a_child_must_be_strictly_better(search: Any, policy: Any, events: Recorder) -> None:
    texts = iter(f"useless {n}" for n in range(1000))
    result = search(policy, lambda prompt: f"<template>{next(texts)}</template>")
    assert result.accepted == 0
    assert events.verified
    assert not any(accepted for _, accepted in events.verified)
    # Each proposal costs 2B, and only ε is scored on dev.
    assert result.spent == 6 + result.proposals * 4


def test_only_failures_are_shown(search: Any, policy: Any, events: Recorder) -> None:
    search(policy, search_budget=400)
    assert_only_failures_were_shown(events)


def test_a_parent_without_failures_is_not_reflected_on(search: Any, policy: Any) -> None:
    everything = " ".join(f"k{n}" for n in range(40))
    calls = []

    def all_at_once(prompt: str) -> str:
        calls.append(prompt)
        return f"<template>{everything}</template>"

    result = search(policy, all_at_once, max_barren_waves=2, search_budget=1000)
    assert result.accepted == 1
    assert len(calls) == 1
    assert result.stopped == "2 waves in a row gave no candidate to try"


def test_the_scores_are_those_of_the_dev_questions(search: Any, policy: Any) -> None:
    pool = search(policy, search_budget=300).pool
    for template, row in zip(pool.candidates, pool.scores, strict=True):
        keys = template.text.split()
        assert row.tolist() == [float(q.replace("q", "k") in keys) for q in pool.sample_ids]


def test_a_better_search_finds_more_with_more_budget(search: Any, keyed_policy: Any) -> None:
    small = search(keyed_policy(40), search_budget=40).pool.scores.max(axis=0).sum()
    large = search(keyed_policy(40), search_budget=600).pool.scores.max(axis=0).sum()
    assert large >= small


def test_the_same_seed_gives_the_same_search(search: Any, keyed_policy: Any) -> None:
    results = [search(keyed_policy(40), search_budget=200) for _ in range(2)]
    texts = [[candidate.text for candidate in result.pool.candidates] for result in results]
    assert texts[0] == texts[1]


def test_an_evaluator_that_raises_ends_the_search_with_what_it_has(
    search: Any, keyed_policy: Any
) -> None:
    result = search(keyed_policy(40, fail_after=4), search_budget=600)
    assert result.stopped == "the evaluation failed: RuntimeError: the sampler is gone"
    assert result.failed
    assert result.accepted == 1
    assert result.pool.scores.shape == (2, 6)
    at_once = search(keyed_policy(40, fail_after=0))
    assert at_once.pool.scores.shape == (0, 6)


def test_a_host_that_cannot_go_on_is_not_held_up(search: Any, policy: Any) -> None:
    def lost(requests: Any) -> Any:
        raise HostError("the ranks are out of step")

    policy.rollout = lost
    with pytest.raises(HostError, match="out of step"):
        search(policy)


def test_a_failing_reflection_model_ends_the_search(
    search: Any, policy: Any, events: Recorder
) -> None:
    def broken(prompt: str) -> str:
        raise ConnectionError("no route")

    result = search(policy, broken)
    assert result.stopped == "the reflection model failed: ConnectionError: no route"
    assert result.failed
    assert len(events.errors) == 1
    assert events.errors[0].reply.error == "ConnectionError: no route"


def test_one_failed_call_among_others_does_not(search: Any, policy: Any) -> None:
    calls = iter(range(1000))

    def flaky(prompt: str) -> str:
        if next(calls) % 3 == 0:
            raise TimeoutError
        return LEARNER(prompt)

    assert search(policy, flaky, front_fill=True, search_budget=100).accepted > 0


def test_a_budget_below_one_dev_evaluation(search: Any, policy: Any) -> None:
    result = search(policy, search_budget=5)
    assert result.pool.candidates == ()
    assert result.stopped == "the budget cannot pay for one evaluation on the dev questions"
    assert result.failed  # so that it is a warning
    assert policy.rollouts == 0


class _RuleFree:
    """A policy whose rewards come from a hash, so any pattern of successes can occur."""

    def __init__(self, salt: int) -> None:
        self.questions = {f"q{n}": Question(f"q{n}", f"what is {n}?", str(n)) for n in range(12)}
        self._salt = salt

    def question(self, question_id: str) -> Question:
        return self.questions[question_id]

    def rollout(self, requests: Any) -> list[Rollout]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Rollout:
        template = request.assignment.template
        key = f"{self._salt}{template.text}{request.assignment.question_id}".encode()
        draw = hashlib.sha256(key).digest()[0]
        reward = math.nan if draw < 20 else float(draw > 150)
        return Rollout(request.assignment, "x", reward)


@given(
    reply=st.text(max_size=40)
    | st.builds("<template>{}</template>".format, st.text(max_size=20))
    | st.sampled_from(["<template>", "</template><template>", "```<template>a</template>"]),
    salt=st.integers(0, 999),
    budget=st.integers(1, 80),
    overspend=st.sampled_from(["never", "literal"]),
    fill=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_no_reply_and_no_reward_breaks_the_accounts(
    reply: str, salt: int, budget: int, overspend: str, fill: bool
) -> None:
    p2o = {
        "minibatch_size": 2,
        "dev_size": 4,
        "beam_width": 3,
        "search_budget": budget,
        "overspend": overspend,
        "front_fill": fill,
    }
    engine = Coevolution.from_settings(
        Settings(algorithms="p2o", p2o=p2o, reflection={"function": lambda prompt: reply})
    )
    policy = _RuleFree(salt)
    request = SearchRequest(0, tuple(policy.questions), policy)
    result = Search(request, engine.context).run()
    if overspend == "never":
        assert result.spent <= budget
    assert result.overshoot == max(0, result.spent - budget)
    assert result.pool.scores.shape == (len(result.pool.candidates), 4)
    assert len({candidate.text for candidate in result.pool.candidates}) == len(
        result.pool.candidates
    )
