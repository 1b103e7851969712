"""Check a stream that is killed at any moment, with calls in flight, and resumed from its checkpoint."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.families import Families, engine_with, run
from prompt_coevo import Coevolution, Settings
from prompt_coevo.types import Assignment, Question, Rollout

GROUP, BATCH, COUNT, STEPS, SAVED_EVERY = 4, 6, 24, 28, 4


class Killed(Exception):
    """Raised where the process is killed."""


class World:
    """Families of questions; the policy has no memory, so every attempt samples alike."""

    def question_ids(self) -> list[str]:
        return [f"q{n}" for n in range(COUNT)]

    def question(self, question_id: str) -> Question:
        number = int(question_id[1:])
        return Question(question_id, f"family f{number % 4} number n{number}", f"answer {number}")

    def rollout(self, requests: Any) -> list[Rollout]:
        raise AssertionError("a stream never asks the policy")

    def sampled(self, plan: list[Assignment], engine: Coevolution) -> list[Rollout]:
        def solved(one: Assignment) -> bool:
            key = f"k{int(one.question_id[1:]) % 4}"
            return one.template is not None and key in one.template.text.split()

        version = engine.policy_version
        return [Rollout(one, "no", float(solved(one)), policy_version=version) for one in plan]


def teacher(prompt: str) -> str:
    """Answer right in two of three calls, sometimes slowly."""
    drawn = random.Random(prompt)
    time.sleep(drawn.choice((0.0, 0.0, 0.002)))
    family = prompt.split("family f")[1][0]
    return f"<template>Think of k{family if drawn.random() < 0.7 else 9} .</template>"


def engine(folder: Path) -> Coevolution:
    section = {"reply_steps": 2}
    settings = Settings(stream=section, reflection={"function": teacher})
    return Coevolution.from_settings(settings, output_dir=folder)


def moments(coevo: Coevolution, world: World, start: int, decided: dict[int, Any]) -> Iterator[Any]:
    """Train from a step on, and yield between any two calls of the engine."""
    for step in range(start, STEPS):
        if step % SAVED_EVERY == 0:
            yield step, json.dumps(coevo.state_dict())
        order = world.question_ids()
        random.Random(step * BATCH // COUNT).shuffle(order)
        first = step * BATCH % COUNT
        plan = coevo.plan(order[first : first + BATCH], GROUP)
        yield None
        decided[step] = [
            (one.question_id, one.template.text if one.template else "") for one in plan
        ]
        coevo.observe(world.sampled(plan, coevo))
        yield None
        coevo.step_end(world)
        yield None


@pytest.mark.parametrize("seed", range(8))
def test_no_decision_differs(seed: int, tmp_path: Path) -> None:
    """Each run is killed five times at random moments; a resumed run may be killed again at once."""
    world, whole = World(), dict[int, Any]()
    uninterrupted = engine(tmp_path / "whole")
    uninterrupted.begin(world)
    for _ in moments(uninterrupted, world, 0, whole):
        pass
    rng, decided = random.Random(seed), dict[int, Any]()
    saved: tuple[int, str] | None = None
    for attempt in range(6):
        coevo = engine(tmp_path / "killed")
        if saved is not None:
            coevo.load_state_dict(json.loads(saved[1]))
        coevo.begin(world)
        start = saved[0] if saved else 0
        left = rng.randrange(1, 60) if attempt < 5 else None
        try:
            for told in moments(coevo, world, start, decided):
                saved = told if told is not None else saved
                if left is not None and (left := left - 1) <= 0:
                    raise Killed
        except Killed:
            continue
        break
    assert decided == whole


def test_a_resumed_run_says_from_where_and_with_what(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "prompt_coevo")
    engine, policy = engine_with(), Families()
    run(engine, policy, 2)
    assert not [line for line in caplog.messages if line.startswith("resumed")]
    known = engine.metrics()
    again = engine_with()
    again.load_state_dict(json.loads(json.dumps(engine.state_dict())), "the file s.json")
    again.begin(policy)
    again.end(policy)
    again.begin(policy)
    (line,) = [line for line in caplog.messages if line.startswith("resumed")]
    assert line == (
        f"resumed from the file s.json at step {engine.policy_version.step}: "
        f"{known['coevo/templates_in_use']:g} templates in use, "
        f"{known['coevo/hard_samples']:g} hard questions, "
        f"{known['coevo/reflection_calls']:g} calls to the reflection model so far"
    )
    assert known["coevo/templates_in_use"] > 0
