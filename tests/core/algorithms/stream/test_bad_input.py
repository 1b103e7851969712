"""Check rewards on other scales, questions whose text changes, and a library full of useless templates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from helpers.families import (
    GROUP,
    Families,
    Teacher,
    engine_with,
    epoch,
    resumed,
    run,
    texts,
    useless,
)
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.types import Assignment, Question, Rollout


@dataclass
class Rewarding(Families):
    """Give the rewards `wrong` in turn for wrong answers, and `right` for a right one."""

    wrong: tuple[float, ...] = (0.0,)
    right: float = 1.0
    _given: int = 0

    def _one(self, one: Assignment, version: Any) -> Rollout:
        rollout = super()._one(one, version)
        self._given += 1
        worth = self.right if rollout.reward else self.wrong[self._given % len(self.wrong)]
        return replace(rollout, reward=worth)


@pytest.mark.parametrize(
    "wrong",
    [(-1.0,), (0.94,), (-3.0, 0.5, 0.0, 0.9), (-1e6, 0.999)],
    ids=["negative", "partial credit", "mixed", "far apart"],
)
def test_what_a_failure_is_paid_decides_nothing(wrong: tuple[float, ...]) -> None:
    usual = run(engine_with(), Rewarding(known={"q1", "q6"}), 4)
    engine = engine_with()
    found = run(engine, Rewarding(known={"q1", "q6"}, wrong=wrong), 4)
    assert [texts(plan) for plan in found] == [texts(plan) for plan in usual]
    assert engine.metrics()["coevo/templates_in_use"] == 4


@pytest.mark.parametrize("reward", [-1.0, 0.0, 0.5, 0.999])
def test_a_constant_reward_below_a_success_ends_with_nothing_in_use(reward: float) -> None:
    teacher = Teacher(useless)
    engine = engine_with(teacher)
    policy = Rewarding(wrong=(reward,), right=reward)
    run(engine, policy, 6)
    metrics = engine.metrics()
    assert (metrics["coevo/templates_in_use"], metrics["coevo/templates_joined"]) == (0, 0)
    assert len(teacher.prompts) <= 6 * policy.count  # one call an epoch for every hard question


@pytest.mark.parametrize("reward", [1.0, 2.0])
def test_a_constant_success_needs_no_template(reward: float) -> None:
    teacher = Teacher()
    plans = run(engine_with(teacher), Rewarding(wrong=(reward,), right=reward), 4)
    assert not teacher.prompts
    assert not any(one.templated for plan in plans for one in plan)


@dataclass
class Reworded(Families):
    """Give every question as many texts as there are epochs; none of them reveals its number."""

    epoch: int = 0
    said: tuple[str, ...] = field(default=("tell", "please say", "now find", "try to give"))

    def question(self, question_id: str) -> Question:
        asked = super().question(question_id)
        text = f"{self.said[self.epoch % len(self.said)]} {asked.prompt}"
        return replace(asked, prompt=text)


def test_a_question_whose_text_changes_keeps_what_is_known_of_it() -> None:
    """An environment may keep a question's name and reword its text: the name identifies the question."""
    engine, policy = engine_with(), Reworded()
    engine.begin(policy)
    for policy.epoch in range(6):
        plans = list(epoch(engine, policy, policy.epoch))
    assert engine.metrics()["coevo/templates_in_use"] == 4
    last = [one for plan in plans for one in plan]
    assert sum(one.templated for one in last) > len(last) / 2
    again = resumed(engine, policy)  # which reads the new texts alone
    (plan, *_) = epoch(again, policy, 7)
    assert sum(one.templated for one in plan) > len(plan) / 2


def test_a_question_that_comes_back_under_another_name_and_text_is_known_by_those_like_it() -> None:
    engine, policy = engine_with(), Reworded(count=32)
    run(engine, policy, 5)
    policy.epoch, policy.count = 1, 64
    engine.questions_learned(policy)
    plan = engine.plan([f"q{number}" for number in range(32, 40)], GROUP)
    right = [
        one.template is not None and f"k{int(one.question_id[1:]) % 4}" in one.template.text
        for one in plan
        if one.templated
    ]
    assert right
    assert all(right)


@dataclass
class Lucky(Families):
    """Reward every fourth rollout under a template, whatever it says, while `lucky` is set."""

    lucky: bool = True
    _drawn: int = 0

    def _one(self, one: Assignment, version: Any) -> Rollout:
        self._drawn += one.templated
        if self.lucky and one.templated and self._drawn % 4 == 0:
            return Rollout(one, "right", 1.0, policy_version=version)
        return super()._one(one, version)


@pytest.mark.parametrize("useless", [16, 48])
def test_a_library_full_of_useless_templates_from_a_checkpoint_is_found_out(useless: int) -> None:
    """All templates are in use after lucky successes, and the library has no room for another."""
    lucky = Teacher(lambda prompt: f"<template>idea {len(lucky.prompts)}</template>")
    section = {"library_size": useless, "calls_per_step": 8, "calls_per_hard": "unlimited"}
    before, policy = engine_with(lucky, stream=section), Lucky(count=64)
    before.begin(policy)
    for number in range(40):
        list(epoch(before, policy, number))
        if before.metrics()["coevo/templates_in_use"] == useless:
            break
    assert before.metrics()["coevo/templates_in_use"] == useless
    policy.lucky = False
    engine = resumed(before, policy, stream=section)
    for number in range(8):
        plans = list(epoch(engine, policy, number))
    library = plugin_states(engine.state_dict())["stream"]["library"]["templates"]
    used = {one["candidate"]["text"] for one in library if one["state"] == "in use"}
    assert {f"Think of k{family} ." for family in range(4)} <= used
    planned = [one for plan in plans for one in plan]
    right = [one for one in planned if one.template and "Think" in one.template.text]
    assert len(right) > len(planned) / 2
