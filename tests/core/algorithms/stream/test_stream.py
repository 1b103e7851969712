"""Check the stream under an engine, driven as an adapter drives it."""

from __future__ import annotations

import itertools
import logging
import random
import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from helpers.families import (
    BATCH,
    GROUP,
    Families,
    Teacher,
    engine_with,
    epoch,
    resumed,
    run,
    texts,
)
from prompt_coevo import Coevolution, Settings, hookimpl
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.errors import HostError, PluginError, StateError
from prompt_coevo.types import Assignment, Candidate, PolicyVersion, Question, Rollout


def test_templates_are_found_tried_and_used_without_a_rollout_of_their_own() -> None:
    engine, policy = engine_with(), Families()
    plans = run(engine, policy, 6)
    assert not any(one.templated for one in plans[0])
    last = [one for plan in plans[-4:] for one in plan]
    solved = [rollout.reward for rollout in policy.trained(last, engine.policy_version)]
    assert sum(solved) > 0.6 * len(last)
    assert engine.metrics()["coevo/templates_in_use"] == 4


def test_one_member_of_a_hard_group_is_bare_and_all_of_others_are() -> None:
    policy = Families(known={"q0", "q5"})
    plans = run(engine_with(), policy, 4)
    for plan in plans[-4:]:
        for start in range(0, len(plan), GROUP):
            members = plan[start : start + GROUP]
            bare = sum(not one.templated for one in members)
            if members[0].question_id in policy.known:
                assert bare == GROUP
            else:
                assert not members[0].templated
                assert bare < GROUP


def test_what_is_trained_on_is_the_question() -> None:
    templated = [one for plan in run(engine_with(), Families(), 3) for one in plan if one.templated]
    assert templated
    prompt = "a question"
    assert all(one.train_prompt(prompt) == prompt for one in templated)


def test_a_question_stays_hard_until_it_is_solved_without_a_template() -> None:
    engine, policy = engine_with(), Families()
    run(engine, policy, 5)
    assert engine.metrics()["coevo/hard_samples"] == policy.count  # solved under templates only
    policy.known = {f"q{n}" for n in range(16)}
    list(epoch(engine, policy))
    assert engine.metrics()["coevo/hard_samples"] == 16


@pytest.mark.parametrize("hard", [2, 4, 10])
def test_questions_that_nothing_solves_cost_a_call_each_and_epoch_at_most(hard: int) -> None:
    """The waves of the first version made 2 749 calls in one search for four such questions."""
    policy = Families(count=64, families=1000)
    policy.known = set(policy.question_ids()[hard:])
    teacher = Teacher(lambda prompt: f"<template>idea {len(prompt)}</template>")
    engine = engine_with(teacher)
    engine.begin(policy)
    for number in range(5):
        list(epoch(engine, policy, number))
        assert len(teacher.prompts) <= hard * (number + 1)
    assert teacher.prompts


def test_no_call_is_made_where_a_template_is_expected_to_help() -> None:
    teacher = Teacher()
    engine, policy = engine_with(teacher), Families()
    run(engine, policy, 4)
    before = len(teacher.prompts)
    for number in range(3):
        list(epoch(engine, policy, number))
    assert len(teacher.prompts) - before <= 2


@pytest.mark.parametrize("known", [0, 32])
def test_all_hard_and_none_hard(known: int) -> None:
    policy = Families(known={f"q{n}" for n in range(known)})
    teacher = Teacher()
    engine = engine_with(teacher)
    plans = run(engine, policy, 3)
    assert bool(teacher.prompts) == (known == 0)
    assert any(one.templated for plan in plans for one in plan) == (known == 0)


def test_a_teacher_that_repeats_itself_is_heard_once() -> None:
    teacher = Teacher(lambda prompt: "<template>always this</template>")
    engine, policy = engine_with(teacher), Families()
    run(engine, policy, 6)
    metrics = engine.metrics()
    assert metrics["coevo/templates_dropped"] == 1
    assert metrics["coevo/templates_in_use"] == metrics["coevo/templates_on_trial"] == 0
    assert len(teacher.prompts) <= 6 * policy.count


@pytest.mark.parametrize("likeness", ["words", "none"])
def test_questions_without_a_word_in_common_are_learnt_one_by_one(likeness: str) -> None:
    class Apart(Families):
        def question(self, question_id: str) -> Question:
            return Question(question_id, f"only{question_id[1:]}", "the answer")

    def seeing(prompt: str) -> str:
        return f"<template>Think of k{re.findall(r'only([0-9]+)', prompt)[0]} .</template>"

    policy = Apart(count=24, families=24)
    engine = engine_with(seeing, stream={"likeness": likeness})
    run(engine, policy, 8)
    assert engine.metrics()["coevo/templates_in_use"] > 12


@pytest.mark.parametrize("text", ["", "?", "the same"])
def test_questions_without_a_word_of_their_own_are_no_likeness(text: str) -> None:
    class Mute(Families):
        def question(self, question_id: str) -> Question:
            return Question(question_id, text, "the answer")

    keys = itertools.cycle(range(4))
    engine, policy = engine_with(lambda _: f"<template>k{next(keys)} </template>"), Mute()
    run(engine, policy, 6)
    assert engine.metrics()["coevo/templates_in_use"] >= 2  # of the four that there are


def test_the_answer_of_a_shown_question_is_no_proof() -> None:
    """A template that solves only the questions its proposer saw is not used."""

    class Leaking(Families):
        def _one(self, one: Assignment, version: Any) -> Rollout:
            told = one.template.text.split() if one.template else []
            right = f"n{one.question_id[1:]}" in told
            return Rollout(one, "", float(right), policy_version=version)

    def leak(prompt: str) -> str:
        number = re.findall(r"number (n\d+)", prompt)[0]
        return f"<template>It is {number} .</template>"

    used = []
    for proof in (True, False):
        engine = engine_with(leak, stream={"proof": proof, "failures_per_call": 1})
        run(engine, Leaking(), 8)
        used.append(engine.metrics()["coevo/templates_joined"])
    assert used[0] == 0
    assert used[1] > 0


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_reply_is_used_at_its_step_and_not_before(steps: int) -> None:
    engine, policy = engine_with(stream={"reply_steps": steps}), Families(count=BATCH)
    plans = run(engine, policy, steps + 3)  # every epoch is one step with all questions
    first = next(step for step, plan in enumerate(plans) if any(one.templated for one in plan))
    assert first == 1 + steps  # called after the first step


def test_a_reflection_model_that_fails_stops_nothing() -> None:
    def broken(prompt: str) -> str:
        raise OSError("no such host")

    engine, policy = engine_with(broken), Families()
    plans = run(engine, policy, 3)
    assert not any(one.templated for plan in plans for one in plan)
    assert engine.metrics()["coevo/reflection_errors"] > 0


def test_another_best_instruction_halves_what_is_known() -> None:
    class Says:
        best: Candidate | None = Candidate("be brief", "instruction")

        @hookimpl
        def coevo_best_instruction(self) -> Candidate | None:
            return self.best

    says, policy = Says(), Families()
    engine = engine_with(plugins={"says": says})
    run(engine, policy, 3)

    def outcomes() -> float:
        state = plugin_states(engine.state_dict())["stream"]["evidence"]["anywhere"]
        return float(sum(state[1]))

    before = outcomes()
    engine.step_end(policy)
    assert outcomes() == before
    says.best = Candidate("be long", "instruction")
    engine.step_end(policy)
    assert outcomes() == pytest.approx(before / 2)


def test_first_sight_gives_unmeasured_questions_what_solved_their_like() -> None:
    found = {}
    for first_sight in (False, True):
        policy = Families(count=96)
        engine = engine_with(stream={"first_sight": first_sight})
        engine.begin(policy)
        plans = list(epoch(engine, policy))  # a single epoch: every question comes once
        found[first_sight] = [one for plan in plans for one in plan if one.templated]
    assert not found[False]
    groups = {one.question_id for one in found[True]}
    assert len(groups) > 10
    assert all(one.member >= GROUP // 2 for one in found[True])


def test_a_question_that_the_policy_does_not_name_is_left_alone() -> None:
    engine, policy = engine_with(), Families()
    run(engine, policy, 2)
    plan = engine.plan(["q999999"], GROUP)
    assert not any(one.templated for one in plan)
    engine.observe([Rollout(one, "", 0.0) for one in plan])
    list(epoch(engine, policy))
    assert engine.metrics()["coevo/hard_samples"] == policy.count


def test_groups_without_room_for_templates_are_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = engine_with(stream={"bare_members": GROUP, "first_sight": False})
    with caplog.at_level(logging.WARNING):
        plans = run(engine, Families(), 3)
    assert not any(one.templated for plan in plans for one in plan)
    told = "stream.bare_members = 6 leaves none of the 6 rollouts of a hard question's group for templates"
    assert sum(told in message for message in caplog.messages) == 1  # before: no call is made


def test_a_likeness_that_cannot_be_made_ends_the_run(offer: Any) -> None:
    def broken(context: Any, questions: Any) -> Any:
        raise ValueError("no such topic")

    offer("likenesses", "broken", broken)
    engine = engine_with(stream={"likeness": "broken"})
    with pytest.raises(PluginError, match="'broken' cannot be built: ValueError: no such topic"):
        engine.begin(Families())


def test_a_model_that_hangs_is_not_asked_again_until_it_is_back() -> None:
    hanging = threading.Event()

    def hang(prompt: str) -> str:
        hanging.wait(60)
        return "<template>late</template>"

    teacher = Teacher(hang)
    made = Settings(reflection={"function": teacher, "total_timeout_s": 0.01})
    engine, policy = Coevolution.from_settings(made), Families(count=BATCH)
    run(engine, policy, 4)
    hanging.set()
    assert len(teacher.prompts) == 1


def test_a_model_that_wants_to_end_the_program_ends_a_call() -> None:
    def leave(prompt: str) -> str:
        raise SystemExit(3)

    engine, policy = engine_with(leave), Families()
    run(engine, policy, 2)
    assert engine.metrics()["coevo/templates_on_trial"] == 0


@pytest.mark.parametrize("step", [10**9, -(10**9)])
@pytest.mark.parametrize("attempt", [0, 7, -1])
def test_rollouts_of_impossible_weights_do_no_harm(attempt: int, step: int) -> None:
    """A trainer may report any policy version for a rollout."""
    version = PolicyVersion(attempt, step)

    class Lying(Families):
        def trained(self, plan: Sequence[Assignment], _: PolicyVersion) -> list[Rollout]:
            return super().trained(plan, version)

    engine = engine_with()
    run(engine, Lying(), 8)
    assert engine.metrics()["coevo/templates_in_use"] == 4
    resumed(engine, Families())  # every number can be written down


# Resuming


def driven(engine: Coevolution, policy: Families, begin: int, end: int) -> list[Any]:
    """Return the decisions between two weight updates."""
    decided = []
    steps = policy.count // BATCH
    for step in range(begin, end):
        ids = policy.question_ids()
        random.Random(step // steps).shuffle(ids)
        start = step % steps * BATCH
        plan = engine.plan(ids[start : start + BATCH], GROUP)
        decided.append(texts(plan))
        engine.observe(policy.trained(plan, engine.policy_version))
        engine.step_end(policy)
    return decided


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("likeness", ["words", "none"])
def test_a_resumed_run_decides_as_the_whole_one(steps: int, likeness: str) -> None:
    settings = {"stream": {"reply_steps": steps, "likeness": likeness}}
    policy, length = Families(), 24
    whole_engine = engine_with(**settings)
    whole_engine.begin(policy)
    whole = driven(whole_engine, policy, 0, length)
    for kill in range(1, length, 4):
        engine = engine_with(**settings)
        engine.begin(policy)
        before = driven(engine, policy, 0, kill)
        after = driven(resumed(engine, policy, **settings), policy, kill, length)
        assert before + after == whole, f"killed after {kill} updates"


def test_a_second_training_goes_on_where_the_first_one_ended() -> None:
    policy, length = Families(), 24
    whole_engine, engine = (engine_with() for _ in range(2))
    whole_engine.begin(policy)
    whole = driven(whole_engine, policy, 0, length)
    engine.begin(policy)
    first = driven(engine, policy, 0, length // 2)
    assert engine.metrics()["coevo/templates_in_use"] > 0
    engine.end(policy)
    engine.begin(policy)
    assert first + driven(engine, policy, length // 2, length) == whole


def test_a_smaller_dataset_is_gone_on_with() -> None:
    engine, policy = engine_with(), Families()
    run(engine, policy, 4)
    smaller = Families(count=20)
    again = resumed(engine, smaller)
    plans = list(epoch(again, smaller))
    assert again.metrics()["coevo/hard_samples"] == 20
    assert any(one.templated for plan in plans for one in plan)


def test_a_state_that_was_never_begun_is_kept() -> None:
    engine, policy = engine_with(), Families()
    run(engine, policy, 3)
    state = engine.state_dict()
    again = engine_with()
    again.load_state_dict(state)
    saved = plugin_states(again.state_dict())["stream"]
    assert saved == plugin_states(state)["stream"]


def test_the_stream_does_not_go_on_from_the_state_of_p2o() -> None:
    """It is refused; with "force" that state is dropped, and the stream starts without one."""
    state = engine_with(algorithms="p2o").state_dict()
    with pytest.raises(StateError, match="state of 'p2o', which is not active in this run"):
        engine_with().load_state_dict(state)
    forced = engine_with(resume="force")
    forced.load_state_dict(state)
    assert forced.state_dict()["plugins"] == engine_with().state_dict()["plugins"]


def test_a_host_that_never_begins_is_told_so() -> None:
    engine = engine_with()
    with pytest.raises(HostError, match=r"call begin\(policy\) first"):
        engine.step_end(Families())
