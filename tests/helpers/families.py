"""Build families of questions that one template each solves, and engines of the stream."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from prompt_coevo import Coevolution, Settings
from prompt_coevo.settings.method import Workload
from prompt_coevo.types import Assignment, Question, Rollout

GROUP, BATCH = 6, 8


@dataclass
class Families:
    """A policy that solves family 3 with a template that contains "k3", and learns nothing.

    `known` are questions that need no template.
    """

    count: int = 32
    families: int = 4
    known: set[str] = field(default_factory=set)

    def question_ids(self) -> list[str]:
        return [f"q{n}" for n in range(self.count)]

    def question(self, question_id: str) -> Question:
        number = int(question_id[1:])
        text = f"a question of family f{number % self.families}, number n{number}"
        return Question(question_id, text, f"answer {number}")

    def rollout(self, requests: Sequence[Any]) -> list[Rollout]:
        raise AssertionError("a stream never asks the policy for rollouts of its own")

    def trained(self, plan: Sequence[Assignment], version: Any) -> list[Rollout]:
        return [self._one(assignment, version) for assignment in plan]

    def _one(self, one: Assignment, version: Any) -> Rollout:
        key = f"k{int(one.question_id[1:]) % self.families}"
        solved = one.templated and one.template is not None and key in one.template.text.split()
        right = solved or one.question_id in self.known
        return Rollout(one, "right" if right else "wrong", float(right), policy_version=version)


def knowing(prompt: str) -> str:
    """Act as a teacher that names the key of the first family it is shown."""
    family = re.findall(r"family f(\d+)", prompt)[0]
    return f"<template>Think of k{family} .</template>"


def useless(prompt: str) -> str:
    """Write a template that helps nobody, another at every call, in any thread."""
    return f"<template>idea {random.SystemRandom().random()}</template>"


class Teacher:
    """Count its calls, from any thread."""

    def __init__(self, reply: Callable[[str], str] = knowing) -> None:
        self.prompts: list[str] = []
        self._reply, self._lock = reply, threading.Lock()

    def __call__(self, prompt: str) -> str:
        with self._lock:
            self.prompts.append(prompt)
        return self._reply(prompt)


def engine_with(teacher: Any = knowing, plugins: Any = None, **settings: Any) -> Coevolution:
    made = Settings(reflection={"function": teacher}, **settings)
    return Coevolution.from_settings(made, plugins=plugins)


def epoch(engine: Coevolution, policy: Families, shuffle: int = 0) -> Iterator[list[Assignment]]:
    """Yield the plans of an epoch, one per weight update."""
    ids = policy.question_ids()
    random.Random(shuffle).shuffle(ids)
    for start in range(0, len(ids), BATCH):
        plan = engine.plan(ids[start : start + BATCH], GROUP)
        engine.observe(policy.trained(plan, engine.policy_version))
        engine.step_end(policy)
        yield plan


def run(
    engine: Coevolution, policy: Families, epochs: int, of: float = 100.0
) -> list[list[Assignment]]:
    """Run the first `epochs` of a run that has `of` epochs."""
    engine.begin(policy, Workload(policy.count, GROUP, of))
    plans: list[list[Assignment]] = []
    for number in range(epochs):
        plans += epoch(engine, policy, shuffle=number)
        engine.epoch_end(policy)
    return plans


def texts(plan: Sequence[Assignment]) -> list[tuple[str, str]]:
    return [(one.question_id, one.template.text if one.template else "") for one in plan]


def resumed(engine: Coevolution, policy: Families, **settings: Any) -> Coevolution:
    state = json.loads(json.dumps(engine.state_dict()))
    again = engine_with(**settings)
    again.load_state_dict(state)
    again.begin(policy)
    return again
