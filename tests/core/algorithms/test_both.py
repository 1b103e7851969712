"""Check INSPO and P2O together: an instruction for every question, templates for the hard ones."""

from __future__ import annotations

import re
from typing import Any

import pytest

from prompt_coevo import Coevolution, hookimpl
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.types import Assignment, Rollout, RolloutRequest, Sampling

GROUP = 2
QUESTIONS = 20
FAMILIES = 5


def teacher(prompt: str) -> str:
    """Name the keys of the shown questions, in a template or in an instruction."""
    keys = {f"k{int(n) % FAMILIES}" for n in re.findall(r"what is (\d+)\?", prompt)}
    text = " ".join(sorted(keys))
    return f"<template>{text}</template>" if "<current_template>" in prompt else ""


class Watcher:
    """Record the requests for searches and let others answer."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    @hookimpl(tryfirst=True)
    def coevo_search(self, request: Any) -> None:
        self.requests.append(request)


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
def policy(keyed_policy: Any) -> Any:
    return keyed_policy(QUESTIONS, families=FAMILIES)


@pytest.fixture
def engine(make_engine: Any, policy: Any, watcher: Watcher) -> Coevolution:
    made: Coevolution = make_engine(
        teacher,
        algorithms=("inspo", "p2o"),
        inspo={"initial_population": ("weak", "k0 k1"), "evolution": "off"},
        p2o={
            "overspend": "never",
            "minibatch_size": 2,
            "dev_size": 4,
            "beam_width": 2,
            "search_budget": 100,
        },
        plugins={"watcher": watcher},
    )
    made.begin(policy)
    return made


def train(engine: Coevolution, policy: Any) -> list[Assignment]:
    plan = engine.plan(sorted(policy.questions), GROUP)
    engine.observe([policy.answer(RolloutRequest(a, Sampling())) for a in plan])
    engine.step_end(policy)
    return plan


def windows(engine: Coevolution) -> dict[str, list[float]]:
    population = plugin_states(engine.state_dict())["inspo"]["population"]
    return {entry["instruction"]["text"]: list(entry["window"]) for entry in population}


def test_a_search_runs_under_the_best_instruction(
    engine: Coevolution, policy: Any, watcher: Watcher
) -> None:
    train(engine, policy)
    engine.epoch_end(policy)
    (request,) = watcher.requests
    assert request.instruction.text == "k0 k1"
    asked = [one.assignment for batch in policy.batches for one in batch]
    assert {a.instruction.text for a in asked} == {"k0 k1"}
    assert any(a.templated for a in asked)


def test_a_rollout_has_both_and_is_trained_on_without_the_template(
    engine: Coevolution, policy: Any
) -> None:
    train(engine, policy)
    engine.epoch_end(policy)
    templated = [a for a in train(engine, policy) if a.templated]
    assert templated
    for assignment in templated:
        instruction, template = assignment.instruction, assignment.template
        assert instruction is not None
        assert template is not None
        assert assignment.rollout_prompt([{"role": "user", "content": "x"}]) == [
            {"role": "system", "content": instruction.text},
            {"role": "user", "content": f"{template.text}\n\nx"},
        ]
        assert assignment.train_prompt([{"role": "user", "content": "x"}]) == [
            {"role": "system", "content": instruction.text},
            {"role": "user", "content": "x"},
        ]


def test_templated_rollouts_enter_neither_windows_nor_buffer(
    engine: Coevolution, policy: Any
) -> None:
    train(engine, policy)
    engine.epoch_end(policy)
    before = windows(engine)
    remembered = len(plugin_states(engine.state_dict())["inspo"]["buffer"]["questions"])
    plan = train(engine, policy)
    plain = [a for a in plan if not a.templated]
    assert 0 < len(plain) < len(plan)
    for text, window in windows(engine).items():
        rewards = [
            policy.answer(RolloutRequest(a, Sampling())).reward
            for a in plain
            if a.instruction is not None and a.instruction.text == text
        ]
        expected = [pytest.approx(sum(rewards) / len(rewards))] if rewards else []
        assert window == before[text] + expected
    after = len(plugin_states(engine.state_dict())["inspo"]["buffer"]["questions"])
    assert after - remembered == len(plain)


def test_hard_questions_are_mined_from_templated_groups_too(
    engine: Coevolution, policy: Any
) -> None:
    train(engine, policy)
    engine.epoch_end(policy)
    plan = engine.plan(sorted(policy.questions), GROUP)
    under_templates = {a.question_id for a in plan if a.templated}
    engine.observe([Rollout(a, "", float(a.templated)) for a in plan])
    hard = set(plugin_states(engine.state_dict())["p2o"]["hard"])
    assert under_templates
    assert not hard & {
        q for q in under_templates if all(a.templated for a in plan if a.question_id == q)
    }
    assert hard >= set(policy.questions) - under_templates
