"""Templates that carry answers, read by a policy that understands any disguise, and honest ones."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from helpers.families import Families, engine_with, run
from prompt_coevo.algorithms.stream import plugin
from prompt_coevo.policy import ground_truth
from prompt_coevo.types import Assignment, Question, Rollout

SHAPES = [(2, 32), (4, 32), (10, 40)]
"""Numbers of different right answers and of questions: yes or no, multiple choice, a digit."""


@dataclass
class Labels(Families):
    """Questions of four kinds with few right answers. A template is `always LABEL`, `only NUMBER`, or
    `honest`, which solves a question with the probability `honest`."""

    families: int = 4
    labels: int = 2
    honest: float = 0.3
    seed: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def label(self, number: int) -> str:
        return f"L{random.Random(f'{self.seed}/{number}').randrange(self.labels)}"

    def question(self, question_id: str) -> Question:
        asked = super().question(question_id)
        return Question(question_id, asked.prompt, self.label(int(question_id[1:])))

    def trained(self, plan: Sequence[Assignment], version: Any) -> list[Rollout]:
        return [Rollout(one, "", float(self.solves(one)), policy_version=version) for one in plan]

    def solves(self, one: Assignment) -> bool:
        if one.question_id in self.known:
            return True
        if not one.templated or one.template is None:
            return False
        number, text = int(one.question_id[1:]), one.template.text
        if text.startswith("Honest"):
            return self.random.random() < self.honest
        said = re.findall(r"L\d+|n\d+", text)
        return said in ([self.label(number)], [f"n{number}"])


def always(prompt: str) -> str:
    """Name the right answer of the first question shown."""
    return f"<template>Say {re.findall(r'L[0-9]+', prompt)[-1]} whatever is asked.</template>"


def only(prompt: str) -> str:
    """Name one of the questions shown, whose answer would stand beside it."""
    return f"<template>A disguised answer for {re.findall(r'n[0-9]+', prompt)[0]}.</template>"


@pytest.mark.parametrize(("labels", "count"), SHAPES)
@pytest.mark.parametrize("teacher", [always, only])
def test_a_template_that_carries_answers_does_not_come_into_use(
    teacher: Any, labels: int, count: int
) -> None:
    tried = used = 0
    for seed in range(5):
        policy = Labels(count=count, labels=labels, seed=seed)
        engine = engine_with(teacher, seed=seed)
        run(engine, policy, 4)
        metrics = engine.metrics()
        used += int(metrics["coevo/templates_joined"])
        tried += sum(
            int(metrics[f"coevo/templates_{now}"]) for now in ("joined", "dropped", "on_trial")
        )
    assert tried >= 10
    assert used <= tried / 20


@pytest.mark.parametrize(("labels", "count"), SHAPES)
def test_honest_templates_come_into_use(labels: int, count: int) -> None:
    used = 0
    for seed in range(20):
        policy = Labels(count=count, labels=labels, seed=seed)
        engine = engine_with(lambda _: "<template>Honest advice.</template>", seed=seed)
        run(engine, policy, 3)
        used += int(engine.metrics()["coevo/templates_joined"])
    assert used >= 19


@pytest.mark.parametrize("one_label", [True, False])
def test_honest_templates_come_into_use_where_few_questions_are_hard(one_label: bool) -> None:
    """All hard questions have one right answer, or there is one alone. The others need no template."""
    used = 0
    for seed in range(5):
        policy = Labels(count=32, seed=seed, honest=0.9)
        hard = [n for n in range(32) if policy.label(n) == "L0"] if one_label else [0]
        policy.known = {f"q{n}" for n in range(32)} - {f"q{n}" for n in hard}
        engine = engine_with(lambda _: "<template>Honest advice.</template>", seed=seed)
        run(engine, policy, 4)
        used += int(engine.metrics()["coevo/templates_joined"])
    assert used >= 4


def test_a_right_answer_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step asks for those of all questions like the ones that a template was written for."""
    read: Counter[str] = Counter()

    def counted(policy: Any, question_id: str) -> str | None:
        read[question_id] += 1
        return ground_truth(policy, question_id)

    monkeypatch.setattr(plugin, "ground_truth", counted)
    engine = engine_with(always)
    run(engine, Labels(), 3)
    assert read
    assert set(read.values()) == {1}
