"""Check a stream in which no question repeats."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.families import BATCH, GROUP, Families, Teacher, engine_with, resumed, texts
from prompt_coevo import Coevolution
from prompt_coevo.algorithms.stream import question_numbers as numbered
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.settings.method import Workload

LOOK = 16
FIRST_SIGHT = {"stream": {"first_sight": True}}


def driven(engine: Coevolution, policy: Families, begin: int, end: int) -> list[Any]:
    """Run steps of only new questions; the first ones were already seen."""
    decided = []
    for step in range(begin, end):
        first = step * BATCH
        if first + BATCH > policy.count:
            policy.count = first + BATCH
            engine.questions_learned(policy)
        plan = engine.plan([f"q{n}" for n in range(first, first + BATCH)], GROUP)
        decided.append(texts(plan))
        engine.observe(policy.trained(plan, engine.policy_version))
        engine.step_end(policy)
    return decided


def test_templates_are_found_and_used_on_questions_that_come_once() -> None:
    teacher, policy = Teacher(), Families(count=LOOK)
    engine = engine_with(teacher, **FIRST_SIGHT)
    engine.begin(policy)
    driven(engine, policy, 0, 60)
    metrics = engine.metrics()
    assert metrics["coevo/templates_in_use"] == 4
    assert metrics["coevo/templates_on_trial"] == 0
    assert metrics["coevo/solved_templated"] > 0.5
    assert len(teacher.prompts) < 40  # nothing more to ask about


def test_a_resumed_run_decides_as_the_whole_one() -> None:
    length, whole_policy = 24, Families(count=LOOK)
    whole_engine = engine_with(**FIRST_SIGHT)
    whole_engine.begin(whole_policy)
    whole = driven(whole_engine, whole_policy, 0, length)
    for kill in range(1, length, 5):
        policy, engine = Families(count=LOOK), engine_with(**FIRST_SIGHT)
        engine.begin(policy)
        before = driven(engine, policy, 0, kill)
        after = driven(resumed(engine, policy, **FIRST_SIGHT), policy, kill, length)
        assert before + after == whole, f"killed after {kill} updates"


@pytest.mark.parametrize(
    ("section", "ends"), [({"first_sight": True}, 4), ({}, 4), ({"first_sight": False}, 1)]
)
def test_so_many_new_questions_are_an_epoch(
    monkeypatch: pytest.MonkeyPatch, section: dict[str, Any], ends: int
) -> None:
    """The epoch counts questions that may run under templates; otherwise trials would wait for repeats."""
    monkeypatch.setattr(numbered, "_AN_EPOCH", 20)
    policy, engine = Families(count=LOOK), engine_with(stream=section)
    engine.begin(policy, Workload(LOOK, 6))
    driven(engine, policy, 0, 10)
    assert (
        plugin_states(engine.state_dict())["stream"]["epoch"] == ends
    )  # 16 already seen, 64 new ones
    again = plugin_states(resumed(engine, policy, stream=section).state_dict())["stream"]
    assert again["late"] == 64


def test_templates_on_trial_do_not_fill_the_library_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The likeness learns no late questions, and none of them resembles those shown."""
    monkeypatch.setattr(numbered, "_AN_EPOCH", 40)
    monkeypatch.setattr(numbered.Numbered, "_join", lambda self, policy, known: None)
    policy, teacher = (
        Families(count=LOOK, families=1_000),
        Teacher(lambda prompt: f"<template>idea {len(teacher.prompts)}</template>"),
    )
    engine = engine_with(teacher, stream={"first_sight": True, "library_size": 8})
    engine.begin(policy)
    driven(engine, policy, 0, 40)
    early = len(teacher.prompts)
    driven(engine, policy, 40, 80)
    assert len(teacher.prompts) > early
    assert engine.metrics()["coevo/templates_dropped"] > 8
