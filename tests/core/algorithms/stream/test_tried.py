"""Check what is tried where, for how long, and what the reflection model learns of it."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from helpers.families import BATCH, GROUP, Families, Teacher, engine_with, epoch, run, useless
from prompt_coevo import Coevolution
from prompt_coevo.algorithms.stream import LISTED
from prompt_coevo.engine.state import plugin_states


def library(engine: Coevolution) -> dict[str, Any]:
    found: dict[str, Any] = plugin_states(engine.state_dict())["stream"]["library"]
    return found


def families_in(prompt: str) -> set[str]:
    return set(re.findall(r"family f(\d+)", prompt))


def test_a_call_shows_questions_of_one_kind() -> None:
    teacher = Teacher()
    run(engine_with(teacher), Families(count=64, families=8), 3)
    assert teacher.prompts
    assert all(len(families_in(prompt)) == 1 for prompt in teacher.prompts)


def test_where_no_question_is_like_another_a_call_shows_several() -> None:
    teacher = Teacher()
    run(engine_with(teacher, stream={"likeness": "none"}), Families(count=64, families=8), 3)
    assert max(len(families_in(prompt)) for prompt in teacher.prompts) > 1


def test_what_one_kind_gave_up_is_tried_by_another_and_not_again_by_the_first() -> None:
    """The teacher draws at random between two texts, each right for one of two families."""
    drawn = random.Random(0)
    teacher = Teacher(lambda _: f"<template>Think of k{drawn.randrange(2)} .</template>")
    engine, policy = engine_with(teacher), Families(count=48, families=2)
    run(engine, policy, 4)
    templates = library(engine)["templates"]
    assert {one["candidate"]["text"] for one in templates if one["state"] == "in use"} == {
        "Think of k0 .",
        "Think of k1 .",
    }


def test_a_useless_template_is_dropped_once_for_each_kind() -> None:
    teacher = Teacher(lambda _: "<template>useless</template>")
    engine, policy = engine_with(teacher), Families(count=64, families=2)
    run(engine, policy, 6)
    ((text, shown),) = library(engine)["dropped"].values()
    assert text == "useless"
    assert {int(name[1:]) % 2 for name in shown} == {0, 1}
    before = engine.metrics()["coevo/templates_dropped"]
    again = engine_with(teacher)
    again.load_state_dict(json.loads(json.dumps(engine.state_dict())))
    again.begin(policy)
    list(epoch(again, policy))
    assert not library(again)["templates"]
    assert again.metrics()["coevo/templates_dropped"] == before


def test_what_is_right_for_one_kind_is_not_closed_to_it_by_others() -> None:
    """A teacher proposes one text for everything; the kind that it solves used to lose it."""
    teacher = Teacher(lambda _: "<template>Think of k7 .</template>")
    policy = Families(count=240, families=40)
    engine = engine_with(teacher)
    plans = run(engine, policy, 4)
    last = [one for plan in plans[-(240 // BATCH) :] for one in plan]
    own = [one.templated for one in last if int(one.question_id[1:]) % 40 == 7]
    assert sum(own) > len(own) / 2


def test_without_the_gate_for_known_texts_a_useless_one_is_not_tried_for_ever() -> None:
    teacher = Teacher(lambda _: "<template>useless</template>")
    policy, gates = Families(count=96, families=4), {"active": ()}
    engine = engine_with(teacher, gates=gates)
    plans = run(engine, policy, 6)
    last = [one for plan in plans[-(96 // BATCH) :] for one in plan]
    assert not any(one.templated for one in last)


def test_all_members_but_one_try_while_nothing_solves_a_question() -> None:
    teacher = Teacher(useless)
    engine, policy = engine_with(teacher), Families(count=32, families=2)
    plans = run(engine, policy, 2)
    assert engine.metrics()["coevo/templates_in_use"] == 0
    trying = [one for one in plans[-1] if one.templated]
    assert len(trying) == (GROUP - 1) * BATCH


def test_calls_pause_while_an_epoch_cannot_try_what_waits() -> None:
    """A question unlike all others has five rollouts an epoch for its templates on trial."""
    teacher = Teacher(useless)
    engine, policy = (
        engine_with(teacher, stream={"calls_per_hard": "unlimited"}),
        Families(count=32, families=1_000),
    )
    engine.begin(policy)
    for number in range(6):
        for _ in epoch(engine, policy, number):
            waiting = [one["shown"] for one in library(engine)["templates"]]
            assert all(
                sum(name in shown for shown in waiting) <= 2 for name in policy.question_ids()
            )
    assert len(teacher.prompts) > 32


def test_the_reflection_model_is_told_what_was_tried_on_such_questions() -> None:
    teacher = Teacher(lambda prompt: f"<template>idea {len(teacher.prompts)}</template>")
    engine, policy = engine_with(teacher), Families(count=64, families=2)
    run(engine, policy, 6)
    dropped = {text: shown for text, shown, *_ in library(engine)["dropped"].values()}
    assert dropped
    told = [prompt for prompt in teacher.prompts if "<tried>" in prompt]
    assert told
    for prompt in told:
        (family,) = families_in(prompt)
        assert prompt.count("<tried>") <= LISTED
        for share, text in re.findall(r"<tried>\n([\d.]+)\n(.+)\n</tried>", prompt):
            assert share == "0.00"
            shown = dropped.get(text, [f"q{family}"])
            assert int(family) in {int(name[1:]) % 2 for name in shown}


@pytest.mark.parametrize("solved_at", [0.5, 1.0])
def test_failures_under_templates_are_marked_in_the_plan(solved_at: float) -> None:
    engine, policy = engine_with(stream={"solved_at": solved_at}), Families()
    plans = [one for plan in run(engine, policy, 3) for one in plan]
    assert {one.punished_from for one in plans if one.templated} == {solved_at}
    assert {one.unpunished(0.0) for one in plans if one.templated} == {True}
    assert not any(one.unpunished(0.0) for one in plans if not one.templated)
    assert not any(one.unpunished(solved_at) for one in plans)


def test_what_is_not_distilled_is_trained_on_as_it_is() -> None:
    engine = engine_with(context_distillation=False)
    plans = [one for plan in run(engine, Families(), 3) for one in plan]
    assert any(one.templated for one in plans)
    assert not any(one.unpunished(0.0) for one in plans)


def test_no_template_at_first_sight_where_those_like_it_are_solved_without_one() -> None:
    """Two questions of a family are hard, so a template for it is in use; the others need none."""
    policy = Families(count=96, families=2)
    order = policy.question_ids()
    random.Random(0).shuffle(order)
    odd = [name for name in order if int(name[1:]) % 2]
    policy.known = set(odd[3:])
    engine = engine_with()
    engine.begin(policy)
    plans = list(epoch(engine, policy))
    late = [one for plan in plans[-6:] for one in plan]
    assert any(one.templated for one in late if one.question_id not in odd)
    assert not any(one.templated for one in late if one.question_id in odd)
    in_use = {one["candidate"]["text"] for one in library(engine)["templates"]}
    assert "Think of k1 ." in in_use
