"""Check P2O's Algorithm 1: an engine driven as an adapter drives it."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from prompt_coevo import Coevolution
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.types import Rollout, RolloutRequest, Sampling

P2O = {
    "overspend": "never",
    "minibatch_size": 2,
    "dev_size": 4,
    "beam_width": 3,
    "search_budget": 300,
    "front_fill": True,
}
GROUP = 4


FAMILIES = 5
UNCRACKED = 4


def teacher(prompt: str) -> str:
    """Name the keys of two shown questions; the key of the last family is unknown to the teacher."""
    numbers = [int(n) % FAMILIES for n in re.findall(r"what is (\d+)\?", prompt)]
    keys = [f"k{n}" for n in numbers if n != UNCRACKED][:2]
    return f"<template>{' '.join(dict.fromkeys(keys)) or 'no idea'}</template>"


@pytest.fixture
def policy(keyed_policy: Any) -> Any:
    return keyed_policy(40, families=FAMILIES)


@pytest.fixture
def engine(make_engine: Any) -> Coevolution:
    return make_engine(teacher, p2o=P2O)  # type: ignore[no-any-return]


def train(engine: Coevolution, policy: Any, solved: Sequence[str] = ()) -> list[Any]:
    """Train one epoch of one round: each question gets a group; those in `solved` need no template."""
    ids = sorted(policy.questions)
    plan = engine.plan(ids, GROUP)
    rollouts = [
        Rollout(a, "", 1.0)
        if a.question_id in solved
        else policy.answer(RolloutRequest(a, Sampling()))
        for a in plan
    ]
    engine.observe(rollouts)
    engine.step_end(policy)
    return plan


def test_nothing_is_templated_before_the_first_search(engine: Coevolution, policy: Any) -> None:
    plan = train(engine, policy)
    assert len(plan) == 40 * GROUP
    assert not any(assignment.templated for assignment in plan)


def test_templates_go_to_the_hard_questions_of_the_epoch_before(
    engine: Coevolution, policy: Any
) -> None:
    easy = [f"q{n}" for n in range(10, 40)]
    train(engine, policy, solved=easy)
    engine.epoch_end(policy)
    plan = engine.plan(sorted(policy.questions), GROUP)
    templated = {assignment.question_id for assignment in plan if assignment.templated}
    assert templated == {f"q{n}" for n in range(10)}
    assert {assignment.distill for assignment in plan} == {True}
    assert engine.metrics()["coevo/hard_samples"] == 10


def test_a_rollout_keeps_its_template_through_the_epoch(engine: Coevolution, policy: Any) -> None:
    train(engine, policy)
    engine.epoch_end(policy)
    first = engine.plan(["q1", "q2"], GROUP)
    again = engine.plan(["q2", "q1"], GROUP)
    texts = [[a.template.text for a in plan if a.question_id == "q1"] for plan in (first, again)]
    assert texts[0] == texts[1]
    assert len(texts[0]) == GROUP


def test_a_question_that_is_still_hard_under_templates_stays_hard(
    engine: Coevolution, policy: Any
) -> None:
    train(engine, policy)
    engine.epoch_end(policy)
    train(engine, policy)  # rolled out under the templates now
    hard = plugin_states(engine.state_dict())["p2o"]["hard"]
    assert {f"q{n}" for n in range(40) if n % FAMILIES == UNCRACKED} <= set(hard)
    assert len(hard) < 40


def test_too_few_hard_questions_leave_no_templates(engine: Coevolution, policy: Any) -> None:
    train(engine, policy)
    engine.epoch_end(policy)
    train(engine, policy, solved=[f"q{n}" for n in range(1, 40)])
    engine.epoch_end(policy)
    assert not any(a.templated for a in engine.plan(sorted(policy.questions), GROUP))
    assert engine.metrics()["coevo/searches"] == 1


def test_a_search_that_solves_nothing_leaves_no_templates(make_engine: Any, policy: Any) -> None:
    engine = make_engine(lambda prompt: "<template>filler</template>", p2o=P2O)
    train(engine, policy)
    engine.epoch_end(policy)
    assert not any(a.templated for a in engine.plan(["q0"], GROUP))
    assert engine.metrics()["coevo/cover_templates"] == 0


def test_a_search_is_one_line_in_the_log_a_failed_one_a_warning(
    make_engine: Any, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for reply, level in ((teacher, logging.INFO), (lambda prompt: 1 / 0, logging.WARNING)):
        engine = make_engine(reply, p2o=P2O)
        train(engine, policy)
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="prompt_coevo"):
            engine.epoch_end(policy)
        (record,) = caplog.records
        assert record.levelno == level
        assert record.getMessage().startswith("search 1: ")


def test_one_template_per_group_is_a_setting(make_engine: Any, policy: Any) -> None:
    same = make_engine(teacher, p2o={**P2O, "group_templates": "same"})
    diverse = make_engine(teacher, p2o=P2O)
    counts = []
    for engine in (same, diverse):
        train(engine, policy)
        engine.epoch_end(policy)
        plan = engine.plan(sorted(policy.questions), GROUP)
        groups = [plan[i : i + GROUP] for i in range(0, len(plan), GROUP)]
        assert any(a.templated for a in plan)
        counts.append(max(len({a.template and a.template.id for a in group}) for group in groups))
    assert counts[0] == 1
    assert counts[1] > 1


def test_without_distillation_the_assignment_says_so(make_engine: Any, policy: Any) -> None:
    engine = make_engine(teacher, p2o=P2O, context_distillation=False)
    train(engine, policy)
    engine.epoch_end(policy)
    plan = engine.plan(["q1"], GROUP)
    assert not any(a.distill for a in plan)
    assert any(a.templated for a in plan)


def test_a_step_trigger_searches_without_epochs(make_engine: Any, policy: Any) -> None:
    engine = make_engine(teacher, p2o={**P2O, "search_every": 2})
    train(engine, policy)
    assert engine.metrics()["coevo/searches"] == 0
    train(engine, policy)
    assert engine.metrics()["coevo/searches"] == 1
    engine.epoch_end(policy)
    assert engine.metrics()["coevo/searches"] == 1


def test_no_search_after_the_last_step(make_engine: Any, policy: Any) -> None:
    engine = make_engine(teacher, p2o={**P2O, "search_every": 1})
    engine.observe([Rollout(a, "", 0.0) for a in engine.plan(["q1", "q2", "q3"], 2)])
    engine.step_end(policy, last=True)
    assert engine.metrics()["coevo/searches"] == 0
    assert policy.batches == []


def test_metrics_tell_templated_from_untemplated(engine: Coevolution, policy: Any) -> None:
    train(engine, policy, solved=[f"q{n}" for n in range(20, 40)])
    assert engine.metrics()["coevo/reward_untemplated"] == 0.5
    assert "coevo/reward_templated" not in engine.metrics()
    engine.epoch_end(policy)
    train(engine, policy, solved=[f"q{n}" for n in range(20, 40)])
    metrics = engine.metrics()
    assert metrics["coevo/templated_fraction"] == 0.5
    assert metrics["coevo/reward_untemplated"] == 1.0
    assert 0 < metrics["coevo/reward_templated"] < 1
    assert metrics["coevo/train_rollouts"] == 2 * 40 * GROUP
    assert metrics["coevo/search_rollouts"] == policy.rollouts
    assert all(math.isfinite(value) for value in metrics.values())


def test_a_group_that_is_unfit_to_judge_by_is_not_hard(engine: Coevolution) -> None:
    plan = engine.plan(["q1", "q2"], 2)
    engine.observe(
        [Rollout(a, "", 0.0, "tool_error" if a.question_id == "q1" else "ok") for a in plan]
    )
    assert engine.metrics()["coevo/hard_samples"] == 1


def test_a_missing_reflection_model_shows_before_training(make_engine: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="no reflection model is set"):
        make_engine(p2o=P2O, reflection={})


# A question that is hard until it is solved without a template


@pytest.fixture
def bare(make_engine: Any) -> Coevolution:
    return make_engine(teacher, p2o={**P2O, "hardness": "bare"})  # type: ignore[no-any-return]


def groups_of(plan: Sequence[Any]) -> dict[str, list[str]]:
    """Return the templates of a round by question, "" for none."""
    found: dict[str, list[str]] = {}
    for one in plan:
        text = one.template.text if one.template else ""
        found.setdefault(one.question_id, []).append(text)
    return found


def test_until_it_is_solved_bare_a_question_keeps_what_solved_it(
    bare: Coevolution, policy: Any
) -> None:
    train(bare, policy)
    bare.epoch_end(policy)
    first = groups_of(train(bare, policy))
    bare.epoch_end(policy)
    second = groups_of(train(bare, policy))
    assert bare.metrics()["coevo/hard_samples"] == 40
    kept = 0
    for question_id, texts in second.items():
        assert texts[0] == ""
        key = f"k{int(question_id[1:]) % FAMILIES}"
        solved = {text for text in first[question_id] if key in text.split()}
        if solved:
            kept += 1
            assert set(texts[1:]) <= solved
    assert kept > 10


def test_solved_bare_it_is_hard_no_more(bare: Coevolution, policy: Any) -> None:
    train(bare, policy)
    bare.epoch_end(policy)
    train(bare, policy, solved=["q0", "q1"])
    assert bare.metrics()["coevo/hard_samples"] == 38
    bare.epoch_end(policy)
    assert set(groups_of(train(bare, policy))["q0"]) == {""}


def test_what_solved_a_question_travels_in_the_state(
    bare: Coevolution, policy: Any, make_engine: Any
) -> None:
    for _ in range(2):
        train(bare, policy)
        bare.epoch_end(policy)
    resumed = make_engine(teacher, p2o={**P2O, "hardness": "bare"})
    resumed.load_state_dict(bare.state_dict())
    assert groups_of(train(resumed, policy)) == groups_of(train(bare, policy))
