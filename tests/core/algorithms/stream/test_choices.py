"""Check which templates the stream keeps and improves, and that a resumed run remembers why."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from helpers.families import (
    GROUP,
    Families,
    Teacher,
    engine_with,
    epoch,
    knowing,
    resumed,
    run,
    texts,
)
from prompt_coevo import Coevolution, hookimpl
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.types import Assignment, Candidate, Rollout


def in_use(engine: Coevolution) -> list[str]:
    templates = plugin_states(engine.state_dict())["stream"]["library"]["templates"]
    return [one["candidate"]["text"] for one in templates if one["state"] == "in use"]


# A full library


def test_a_full_library_keeps_what_solves_most() -> None:
    """One of two families has six hard questions, the other all of its 24."""
    policy = Families(count=48, families=2)
    policy.known = {f"q{number}" for number in range(13, 48, 2)}
    engine = engine_with(stream={"library_size": 1})
    engine.begin(policy)
    kept: list[list[str]] = []
    for number in range(6):
        kept += [in_use(engine) for _ in epoch(engine, policy, number)]
    assert engine.metrics()["coevo/templates_joined"] > 1
    first = kept.index(["Think of k0 ."])
    assert all(texts == ["Think of k0 ."] for texts in kept[first:])


def test_what_solved_much_long_ago_makes_room_in_a_full_library() -> None:
    policy = Families(count=48, families=2)
    ids = set(policy.question_ids())
    odd = {f"q{number}" for number in range(1, 48, 2)}
    engine = engine_with(stream={"library_size": 1})
    engine.begin(policy)
    policy.known = ids - odd
    for number in range(4):
        list(epoch(engine, policy, number))
    assert in_use(engine) == ["Think of k1 ."]
    policy.known = ids
    list(epoch(engine, policy))
    for _ in range(1_500):
        engine.step_end(policy)
    policy.known = odd
    for number in range(4):
        list(epoch(engine, policy, number))
    assert in_use(engine) == ["Think of k0 ."]


# Improving templates


class Told(Families):
    """A policy whose completions name the template that they were sampled under."""

    def _one(self, one: Assignment, version: Any) -> Rollout:
        rollout = super()._one(one, version)
        under = one.template.text if one.template else ""
        return Rollout(one, f"under <{under}>", rollout.reward, policy_version=version)


def test_half_of_the_calls_improve_the_best_template_that_a_question_failed_under(
    room_for_all: None,
) -> None:
    policy = Told(count=64, families=8)
    # Useless templates are proposed repeatedly and dropped; then those in use are tried.
    teacher = Teacher(lambda prompt: re.sub("k([4-7])", r"no \1", knowing(prompt)))
    engine = engine_with(teacher, stream={"failures_per_call": 1})
    engine.begin(policy)
    empty = best_of_several = 0
    for number in range(8):
        for _ in epoch(engine, policy, number):
            for request, solved in calls_of(engine):
                told = {failure["completion"] for failure in request["failures"]}
                [parent] = map(Candidate.from_json, request["parents"])
                assert told == {f"under <{parent.text}>"}
                if parent.text:
                    assert solved[parent.id] == max(solved.values())
                    best_of_several += len(set(solved.values())) > 1
                else:
                    empty += bool(solved)
    assert empty > 50
    assert best_of_several > 50


def calls_of(engine: Coevolution) -> list[tuple[dict[str, Any], dict[str, float]]]:
    """Return the latest update's calls: for each, the templates in use that its question failed under, and
    how much each of them has solved."""
    state = plugin_states(engine.state_dict())["stream"]
    if not state["reflection"]["under_way"]:
        return []
    library = state["library"]["templates"]
    solved = state["evidence"]["anywhere"][0]
    worth = {
        Candidate.from_json(one["candidate"]).id: solved[one["slot"]]
        for one in library
        if one["state"] == "in use"
    }
    failures = {question: {name for name, *_ in known} for question, known in state["failures"]}
    [calls] = state["reflection"]["under_way"]
    solved_by = [
        {name: worth[name] for name in failures[q] if name in worth} for (q,) in calls["shown"]
    ]
    return list(zip(calls["asked"]["requests"], solved_by, strict=True))


# The definition of solved


@pytest.mark.parametrize("solved_at", [0.5, 1.0])
def test_half_a_reward_solves_nothing_unless_the_setting_says_so(solved_at: float) -> None:
    class Half(Families):
        def _one(self, one: Assignment, version: Any) -> Rollout:
            rollout = super()._one(one, version)
            return Rollout(one, "half", rollout.reward / 2, policy_version=version)

    engine = engine_with(stream={"solved_at": solved_at})
    run(engine, Half(families=1), 4)
    assert bool(engine.metrics()["coevo/templates_joined"]) == (solved_at == 0.5)
    solved, tried = plugin_states(engine.state_dict())["stream"]["evidence"]["anywhere"]
    assert solved[1] / tried[1] == pytest.approx(float(solved_at == 0.5))


# Calls per question


def test_a_question_is_shown_four_times_an_epoch_at_most(room_for_all: None) -> None:
    policy = Families(count=256, families=1_000)
    order = policy.question_ids()
    random.Random(0).shuffle(order)
    policy.known = set(order[1:])
    teacher = Teacher(lambda prompt: f"<template>useless {hash(prompt)}</template>")
    engine = engine_with(teacher, stream={"calls_per_hard": "unlimited"})
    engine.begin(policy)
    list(epoch(engine, policy))  # 32 updates, of which the first one shows the hard question
    assert len(teacher.prompts) == 4
    list(epoch(engine, policy))
    assert len(teacher.prompts) == 8


# Resuming


def test_a_resumed_run_knows_what_was_measured() -> None:
    """An easy question is a first sight only once."""
    policy = Families(count=64, known={f"q{number}" for number in range(0, 64, 8)})
    engine = engine_with(stream={"first_sight": True})
    run(engine, policy, 4)
    again = resumed(engine, policy, stream={"first_sight": True})
    known = sorted(policy.known)
    plan = engine.plan(known, GROUP)
    assert not any(one.templated for one in plan)
    assert texts(again.plan(known, GROUP)) == texts(plan)


def test_a_resumed_run_knows_under_which_instruction_it_measured() -> None:
    class Says:
        best = Candidate("be brief", "instruction")

        @hookimpl
        def coevo_best_instruction(self) -> Candidate | None:
            return self.best

    def outcomes(engine: Coevolution) -> float:
        return float(sum(plugin_states(engine.state_dict())["stream"]["evidence"]["anywhere"][1]))

    says, policy = Says(), Families()
    engine = engine_with(plugins={"says": says})
    run(engine, policy, 3)
    again = resumed(engine, policy, plugins={"says": says})
    says.best = Candidate("be long", "instruction")
    before = outcomes(again)
    again.step_end(policy)
    assert outcomes(again) == pytest.approx(before / 2)
