"""Check that text shared by many questions is no leak, and text of only one question is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Coevolution, Settings
from prompt_coevo.candidates.leaks import shared_text, some_questions
from prompt_coevo.engine.journal import Journal
from prompt_coevo.testing.scripted_world import ScriptedPolicy, rule
from prompt_coevo.types import Question, Rollout, RolloutRequest

FORMAT = 'Let us think step by step and output the final answer after "####".'
LABELS = "Classify the sentiment of this text as wonderful, terrible or in between:"


class Asking(ScriptedPolicy):
    """Questions that no policy solves."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(rule)
        self.by_id = {question.id: question for question in questions}

    def question_ids(self) -> list[str]:
        return list(self.by_id)

    def question(self, question_id: str) -> Question:
        return self.by_id[question_id]

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        return [Rollout(one.assignment, "no", 0.0) for one in requests]


def pears(count: int, suffix: str = FORMAT) -> list[Question]:
    texts = [f"Ann number {n} has {n} pears and her sister gave her {7 * n}." for n in range(count)]
    return [Question(f"q{n}", f"{text} {suffix}", str(8 * n)) for n, text in enumerate(texts)]


def checked(
    folder: Path, questions: list[Question], template: str, method: str
) -> list[str | None]:
    """Return the reason why each of the written templates was refused."""
    small = {"dev_size": 4, "search_budget": 40, "overspend": "never"}
    sections: dict[str, Any] = {"p2o": small} if method == "p2o" else {}
    count = iter(range(1_000))

    def reply(prompt: str) -> str:
        return f"<template>Plan {next(count)}: {template}</template>"

    settings = Settings(algorithms=method, reflection={"function": reply}, **sections)
    engine, policy = Coevolution.from_settings(settings, output_dir=folder), Asking(questions)
    with policy.open():
        engine.begin(policy)
        for _ in range(3):
            plan = engine.plan(policy.question_ids(), 2)
            engine.observe([Rollout(one, "no", 0.0) for one in plan])
            engine.step_end(policy)
            engine.epoch_end(policy)
    events = Journal(folder / "coevo").read()
    reasons = [event["reason"] for event in events if event["event"] == "candidate_checked"]
    assert reasons
    return reasons


@pytest.mark.parametrize("method", ["stream", "p2o"])
def test_a_format_that_all_questions_ask_for_may_be_asked_for(method: str, tmp_path: Path) -> None:
    assert set(checked(tmp_path, pears(24), f"add the pears. {FORMAT}", method)) == {None}


@pytest.mark.parametrize("method", ["stream", "p2o"])
def test_a_question_may_not_be_copied_with_it(method: str, tmp_path: Path) -> None:
    copied = pears(24)[3].prompt
    reasons = checked(tmp_path, pears(24), f"{copied} says", method)
    assert any("words of a training question" in str(reason) for reason in reasons)


def test_labels_may_be_named(tmp_path: Path) -> None:
    answers = ("wonderful", "terrible", "in between")
    questions = [
        Question(f"q{n}", f"{LABELS} the film number {n} was long", answers[n % 3])
        for n in range(30)
    ]
    template = "look at the words, then say wonderful, terrible or in between about the sentiment"
    assert set(checked(tmp_path, questions, template, "stream")) == {None}


def test_few_questions_share_nothing() -> None:
    assert shared_text(pears(2), 8) == ""
    assert "step by step" in shared_text(pears(3), 8)


def test_a_twentieth_of_many_is_many() -> None:
    rest = [Question(f"r{n}", f"{n} is what {n} is and nothing else {n}") for n in range(100)]
    assert "step by step" not in shared_text([*pears(4), *rest], 8)
    assert "step by step" in shared_text([*pears(6), *rest], 8)


def test_the_same_questions_are_looked_at_in_any_order() -> None:
    many = pears(2_000)
    some = some_questions(Asking(many))
    assert len(some) <= 512
    assert some == some_questions(Asking(many[::-1]))
    assert some_questions(Asking([])) == []
