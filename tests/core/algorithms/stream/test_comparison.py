"""Check the comparison group: hard questions that never get a template."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from helpers.families import Families, Teacher, engine_with, epoch, resumed, run
from prompt_coevo import Coevolution, Settings
from prompt_coevo.algorithms.stream.comparison import Comparison
from prompt_coevo.settings.method import Workload
from prompt_coevo.types import Question, Rollout


def comparison_of(engine: Coevolution) -> Comparison:
    plugin: Any = engine.context.plugins._manager.get_plugin("stream")
    found: Comparison = plugin._comparison
    return found


def held_out(engine: Coevolution, policy: Families) -> set[str]:
    comparison = comparison_of(engine)
    return {f"q{n}" for n in range(policy.count) if comparison.compares(n)}


def seeds_with_both(policy: Families) -> Coevolution:
    """Yield engines whose draw has families on both sides, trained for an epoch."""
    for seed in range(20):
        engine = engine_with(seed=seed, stream={"comparison": 0.4})
        run(engine, policy, 1)
        if 0 < len(held_out(engine, policy)) < policy.count:
            return engine
    raise AssertionError("no seed draws both")


def test_a_whole_family_is_held_out_or_none_of_it() -> None:
    policy = Families(count=48, families=6)
    out = held_out(seeds_with_both(policy), policy)
    families = {int(name[1:]) % 6 for name in out}
    assert out == {f"q{n}" for n in range(48) if n % 6 in families}


def test_a_question_that_is_held_out_never_has_a_template_and_is_never_shown() -> None:
    policy, teacher = Families(count=48, families=6), Teacher()
    for seed in range(6):
        engine = engine_with(teacher, seed=seed, stream={"comparison": 0.4})
        plans = run(engine, policy, 6)
        out = held_out(engine, policy)
        for plan in plans:
            assert not any(one.templated for one in plan if one.question_id in out)
        shown = " ".join(teacher.prompts)
        comparison = comparison_of(engine)
        for n in range(48):
            if f"q{n}" in out or comparison.unshown(n):
                assert f"number n{n}<" not in shown.replace("\n", "<")
        teacher.prompts.clear()


def test_what_templates_do_for_the_others_is_told_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The policy learns the questions it was shown to solve, and none of the comparison group."""
    policy = Families(count=96, families=24)
    engine = engine_with(seed=3, stream={"comparison": 0.4, "first_sight": False})
    run(engine, policy, 5)
    out = held_out(engine, policy)
    policy.known = {f"q{n}" for n in range(96)} - out
    list(epoch(engine, policy))
    assert engine.metrics()["coevo/effect_low"] > 0.3
    with caplog.at_level(logging.INFO, "prompt_coevo"):
        engine.end(policy)
    assert "stream: it helped: without a template hard questions succeed at 1.00" in caplog.text
    assert f"solved without a template now: {96 - len(out)} (for " in caplog.text
    assert "the deciding reward is 0 for every one" in caplog.text.split("it helped")[1]  # again
    assert "the reflection model took" in caplog.text


def test_a_policy_that_learns_alone_is_no_merit_of_templates() -> None:
    policy = Families(count=96, families=24)
    engine = engine_with(seed=3, stream={"comparison": 0.4})
    run(engine, policy, 5)
    policy.known = {f"q{n}" for n in range(96)}
    list(epoch(engine, policy))
    metrics = engine.metrics()
    assert metrics["coevo/effect_low"] < 0 <= metrics["coevo/effect"]


def test_the_group_is_the_same_after_a_resume() -> None:
    policy = Families(count=48, families=6)
    engine = seeds_with_both(policy)
    seed = engine.settings.seed
    again = resumed(engine, policy, seed=seed, stream={"comparison": 0.4})
    assert held_out(again, policy) == held_out(engine, policy)
    assert comparison_of(again).to_json() == comparison_of(engine).to_json()


def test_with_few_hard_questions_there_is_none() -> None:
    policy = Families()
    engine = engine_with()
    run(engine, policy, 2)
    assert held_out(engine, policy) == set()


def test_with_many_a_tenth_of_the_groups_is_held_out() -> None:
    policy = Families(count=600, families=600)
    engine = engine_with()
    run(engine, policy, 1)
    out = held_out(engine, policy)
    assert 30 <= len(out) <= 90
    assert comparison_of(engine).groups == 600
    metrics = engine.metrics()
    assert metrics["coevo/hard_so_far"] == 600
    assert "coevo/effect" not in metrics  # none was met again


def test_one_that_leaves_nothing_for_templates_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = Families(count=8, families=2)
    for seed in range(20):
        engine = engine_with(seed=seed, stream={"comparison": 0.5})
        run(engine, policy, 2)
        if "would leave no hard question" in caplog.text:
            break
    else:
        raise AssertionError("no seed draws all")
    assert held_out(engine, policy) == set()
    assert any(one.templated for one in run(engine, policy, 3)[-1])


@pytest.mark.parametrize("share", [-0.1, 0.6, 1.0])
def test_a_share_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"stream\.comparison must be"):
        Settings(stream={"comparison": share}, reflection={"model": "openai/x"})


class Unequal(Families):
    """150 single questions that are never learned, and 150 families of six that always are."""

    def question(self, question_id: str) -> Question:
        number = int(question_id[1:])
        family = f"alone{number}" if number < 150 else f"fam{(number - 150) // 6}"
        return Question(question_id, f"a question of {family}, number n{number}", "answer")


def test_large_groups_count_no_more_than_small_ones() -> None:
    """A question with a large group is never shown more often, and its success says nothing about
    templates."""
    policy = Unequal(count=1050)
    engine = engine_with(lambda prompt: "<template>Think .</template>", stream={"comparison": 0.2})
    run(engine, policy, 1)
    policy.known = {f"q{n}" for n in range(150, 1050)}
    list(epoch(engine, policy))
    assert abs(engine.metrics()["coevo/effect"]) < 0.12


def test_whether_there_is_one_is_decided_when_training_begins() -> None:
    """Otherwise a stream's early questions would all be on one side and its late ones on both."""
    policy = Families(count=10, families=10)
    engine = engine_with()
    engine.begin(policy, Workload(10, 6))
    policy.count = 900
    engine.questions_learned(policy)
    assert not comparison_of(engine).in_force
    assert "this run begins with 10 questions" in comparison_of(engine).why_not


def test_a_group_survives_its_first_question() -> None:
    policy = Families(count=48, families=6)
    engine = seeds_with_both(policy)
    before = held_out(engine, policy)
    state = comparison_of(engine).to_json()
    first = {line[0] for line in state["groups"]}
    numbers = {f"q{n}": n for n in range(48) if f"q{n}" not in first}
    again = comparison_of(
        resumed(engine, policy, seed=engine.settings.seed, stream={"comparison": 0.4})
    )
    again._compared.clear()
    again._group_of.clear()
    again.load(state, numbers)
    assert {name for name, number in numbers.items() if again.compares(number)} == before - first


def test_a_resume_without_a_comparison_group_has_none() -> None:
    policy = Families(count=48, families=6)
    engine = seeds_with_both(policy)
    again = resumed(
        engine, policy, seed=engine.settings.seed, stream={"comparison": 0}, resume="force"
    )
    assert held_out(again, policy) == set()


def test_a_run_that_began_without_a_comparison_group_says_so_with_another_setting() -> None:
    policy = Families(count=48, families=6)
    engine = engine_with(stream={"comparison": 0})
    run(engine, policy, 2)
    again = resumed(engine, policy, seed=0, stream={"comparison": 0.4}, resume="force")
    assert not comparison_of(again).in_force
    assert comparison_of(again).why_not.startswith("stream.comparison was 0, so no hard question")


def test_one_that_leaves_nothing_to_show_is_given_up() -> None:
    """Every hard question is in the comparison group, so the reflection model would never be called."""
    asked = []
    for seed in range(20):
        teacher = Teacher()
        run(engine_with(teacher, seed=seed, stream={"comparison": 0.3}), Families(1, 1), 3)
        asked.append(len(teacher.prompts))
    assert all(asked)


def test_at_first_sight_a_question_counts_as_hard_as_the_run_measures_it() -> None:
    """With `solved_at` of .5, partial credit of .5 is not hard."""

    class Half(Families):
        def trained(self, plan: Any, version: Any) -> list[Rollout]:
            return [Rollout(one, "half", 0.5, policy_version=version) for one in plan]

    engine = engine_with(stream={"solved_at": 0.5, "first_sight": True, "comparison": 0.3})
    run(engine, Half(count=32), 2)
    metrics = engine.metrics()
    assert (metrics["coevo/hard_so_far"], metrics["coevo/hard_samples"]) == (0, 0)


def test_a_run_of_one_epoch_has_a_verdict_where_questions_are_alike() -> None:
    policy = Families(count=480, families=40)
    engine = engine_with(stream={"comparison": 0.4, "first_sight": True})
    engine.begin(policy, Workload(480, 6, 1.0, 60))
    for number, _ in enumerate(epoch(engine, policy)):
        if number == 30:
            policy.known = {f"q{n}" for n in range(480)} - held_out(engine, policy)
    assert engine.metrics()["coevo/effect_low"] > 0
