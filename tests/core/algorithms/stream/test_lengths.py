"""Check runs of realistic lengths (one epoch, less, two, a stream, any group size) and what they cost."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.families import BATCH, Families, Teacher, engine_with, useless
from prompt_coevo import Coevolution
from prompt_coevo.algorithms.stream.reflection import Reflection
from prompt_coevo.errors import StateError
from prompt_coevo.settings.method import Workload

EPOCH = 4
"""Steps that 32 questions take."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the update after which each call is made."""
    steps: list[int] = []
    original = Reflection._asked

    def spy(self: Reflection, requests: Any, step: int) -> Any:
        steps.extend([step] * len(requests))
        return original(self, requests, step)

    monkeypatch.setattr(Reflection, "_asked", spy)
    return steps


def order(policy: Families, steps: int) -> list[list[str]]:
    """Return the questions of each step, each pass in its own order."""
    batches: list[list[str]] = []
    while len(batches) < steps:
        ids = policy.question_ids()
        random.Random(len(batches)).shuffle(ids)
        batches += [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]
    return batches[:steps]


def drive(
    engine: Coevolution, policy: Families, steps: int, group: int = 6, begin: int = 0
) -> Iterator[Any]:
    """Return the plans of the steps from `begin` on."""
    for number, ids in enumerate(order(policy, steps)[begin:], begin + 1):
        plan = engine.plan(ids, group)
        engine.observe(policy.trained(plan, engine.policy_version))
        engine.step_end(policy, last=number == steps)
        yield plan


def length(policy: Families, steps: int, group: int = 6, **more: Any) -> Workload:
    return Workload(policy.count, group, steps / EPOCH, steps, **more)


def templated(plans: list[Any]) -> int:
    return sum(one.templated for plan in plans for one in plan)


@pytest.mark.parametrize("epochs", [None, 0.5, 1, 2, 8])
def test_first_sight_is_on_whatever_the_length(epochs: float | None) -> None:
    found = {}
    for section in ({}, {"first_sight": False}):
        engine = engine_with(stream=section)
        engine.begin(Families(), Workload(32, 6, epochs))
        found[not section] = templated(list(drive(engine, Families(), EPOCH)))
    assert found[True] > found[False] == 0


def test_a_checkpoint_with_another_value_is_of_another_run() -> None:
    engine = engine_with(stream={"first_sight": False})
    engine.begin(Families())
    with pytest.raises(StateError, match=r"stream\.first_sight was False and is True"):
        engine_with().load_state_dict(engine.state_dict())


# No call whose reply comes too late


@pytest.mark.parametrize("reply", [1, 2, 5, 50])
@pytest.mark.parametrize("steps", [1, 2, 4, 6, 8, 13])
def test_all_calls_are_made_that_could_be_used_and_no_other(
    steps: int, reply: int, asked: list[int]
) -> None:
    """All questions stay hard, so every round can have templates; with first sight even a question's first
    round can."""
    section = {"reply_steps": reply, "calls_per_hard": "unlimited", "library_size": 1000}
    found = {}
    for known in (True, False):
        asked.clear()
        policy = Families(families=1000)
        teacher = Teacher(useless)
        engine = engine_with(teacher, stream={**section, "first_sight": True})
        engine.begin(policy, length(policy, steps) if known else None)
        list(drive(engine, policy, steps))
        engine.context.abandon()  # calls in flight are awaited
        found[known] = list(asked)
        assert not known or len(teacher.prompts) == len(asked)  # the last ones may be cancelled
    assert found[True] == [step for step in found[False] if step + reply < steps]
    assert bool(found[True]) == (reply + 1 < steps)


@pytest.mark.parametrize(("epochs", "calls"), [(0.5, False), (1, False), (1.25, True), (2, True)])
def test_without_first_sight_a_single_pass_pays_nothing(
    epochs: float, calls: bool, asked: list[int]
) -> None:
    policy, engine = Families(), engine_with(stream={"first_sight": False})
    steps = math.ceil(epochs * EPOCH)
    engine.begin(policy, length(policy, steps))
    list(drive(engine, policy, steps))
    assert bool(asked) is calls
    assert all(step + 1 < steps for step in asked)


def test_nothing_is_asked_when_no_hard_question_comes_again(asked: list[int]) -> None:
    """In the last pass, the hard questions have already been met after its second step."""
    policy = Families(families=1000)
    steps = 3 * EPOCH
    late = [one for batch in order(policy, steps)[-2:] for one in batch]
    policy.known = set(late)
    teacher = Teacher(useless)
    section = {"calls_per_hard": "unlimited", "library_size": 1000}
    engine = engine_with(teacher, stream=section)
    engine.begin(policy, length(policy, steps, 24))
    list(drive(engine, policy, steps, 24))
    assert max(asked) == steps - 3  # after it, two steps of questions that are solved
    asked.clear()
    other = engine_with(teacher, stream=section)
    other.begin(policy, Workload(32, 24, 3.0))  # which does not say its steps
    list(drive(other, policy, steps, 24))
    assert max(asked) == steps - 1


def test_rounds_that_serve_several_updates(asked: list[int]) -> None:
    """Each round serves four updates; calls after the last round was planned would be useless."""
    policy, rounds = Families(families=1000), 6
    teacher = Teacher(useless)
    engine = engine_with(teacher, stream={"calls_per_hard": "unlimited", "library_size": 1000})
    engine.begin(policy, Workload(32, 64, rounds / EPOCH, 4 * rounds, 4.0))
    for number, ids in enumerate(order(policy, rounds), 1):
        plan = engine.plan(ids, 64)
        engine.observe(policy.trained(plan, engine.policy_version))
        for update in range(4):
            engine.step_end(policy, last=number == rounds and update == 3)
    last_round = 4 * (rounds - 1)
    assert max(asked) == last_round - 1


def test_a_run_that_goes_on_longer_than_it_said_asks_on(asked: list[int]) -> None:
    policy = Families(families=1000)
    teacher = Teacher(useless)
    engine = engine_with(teacher, stream={"calls_per_hard": "unlimited", "library_size": 1000})
    engine.begin(policy, length(policy, 4))
    for ids in order(policy, 9):
        plan = engine.plan(ids, 6)
        engine.observe(policy.trained(plan, engine.policy_version))
        engine.step_end(policy)
    assert {1, 2, 4, 5, 8} <= set(asked)
    assert 3 not in asked


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_a_run_that_is_killed_anywhere_asks_as_the_whole_one(epochs: int, asked: list[int]) -> None:
    steps, section = epochs * EPOCH, {"calls_per_hard": "unlimited"}
    whole_policy, whole = Families(known={"q3", "q9"}), engine_with(stream=section)
    whole.begin(whole_policy, length(whole_policy, steps))
    list(drive(whole, whole_policy, steps))
    expected = list(asked)
    for kill in range(1, steps):
        asked.clear()
        policy, engine = Families(known={"q3", "q9"}), engine_with(stream=section)
        engine.begin(policy, length(policy, steps))
        for number, _ in enumerate(drive(engine, policy, steps), 1):
            if number == kill:
                break
        again = engine_with(stream=section)
        again.load_state_dict(json.loads(json.dumps(engine.state_dict())))
        before = list(asked)
        again.begin(policy, length(policy, steps))
        asked[:] = before  # calls in flight are repeated, and answered from the ledger
        list(drive(again, policy, steps, begin=kill))
        assert asked == expected, f"killed after {kill} updates"


def test_a_stream_asks_until_its_last_round(asked: list[int]) -> None:
    policy, steps = Families(count=16, families=1000), 12
    teacher = Teacher(useless)
    engine = engine_with(teacher, stream={"calls_per_hard": "unlimited", "library_size": 1000})
    engine.begin(policy, Workload(16, 6, None, steps))
    for number in range(steps):
        first = number * BATCH
        if first + BATCH > policy.count:
            policy.count = first + BATCH
            engine.questions_learned(policy)
        plan = engine.plan([f"q{n}" for n in range(first, first + BATCH)], 6)
        engine.observe(policy.trained(plan, engine.policy_version))
        engine.step_end(policy, last=number == steps - 1)
    assert set(asked) == set(range(1, steps - 1))


# Groups of any size


@pytest.mark.parametrize("epochs", [1, 8])
@pytest.mark.parametrize("group", [2, 4, 64])
def test_groups_of_any_size(group: int, epochs: int) -> None:
    engine, policy = engine_with(), Families()
    steps = epochs * EPOCH
    engine.begin(policy, length(policy, steps, group))
    plans = list(drive(engine, policy, steps, group))
    if group > 2 or epochs > 1:
        assert templated(plans)
    for plan in plans:
        for start in range(0, len(plan), group):
            assert not plan[start].templated  # one is bare at least
    if epochs == 8:
        last = [one for plan in plans[-EPOCH:] for one in plan]
        solved = sum(rollout.reward for rollout in policy.trained(last, engine.policy_version))
        assert solved > 0.7 * len(last) * (group - 1) / group


@pytest.mark.parametrize(
    ("group", "first_sight", "topic"),
    [(4, False, "problem"), (64, False, None), (4, True, "warning")],
)
def test_groups_without_room_are_said_before_training(
    group: int, first_sight: bool, topic: Any
) -> None:
    engine, epochs = engine_with(stream={"bare_members": 4, "first_sight": first_sight}), 8.0
    page = engine.preflight(None, Workload(32, group, epochs, 40))
    told = f"stream.bare_members = 4 leaves none of the {group} rollouts of a hard question's group"
    found = [line.status for line in page.lines if told in line.text]
    assert found == ([topic] if topic else [])


def test_groups_without_room_cost_no_call(asked: list[int]) -> None:
    engine, policy = engine_with(stream={"bare_members": 6, "first_sight": False}), Families()
    engine.begin(policy, length(policy, 8 * EPOCH))
    list(drive(engine, policy, 8 * EPOCH))
    assert not asked
