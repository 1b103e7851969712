"""Check questions that do not say what to do: their texts, right answers, and what the teachers know."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from prompt_coevo.demo.unnamed import arms
from prompt_coevo.demo.unnamed.families import FAMILIES, UNNAMED
from prompt_coevo.demo.unnamed.tasks import HARD, HELD_OUT, PLAIN, TRAINING, reward, split
from prompt_coevo.demo.unnamed.teachers import TeacherName, teacher
from prompt_coevo.errors import SettingsError


@pytest.mark.parametrize("seed", range(5))
def test_no_question_is_trained_on_and_held_out(seed: int) -> None:
    training, held_out = split(seed)
    asked = [task.question for task in (*training, *held_out)]
    assert len(asked) == len(set(asked))
    assert Counter(task.family for task in training) == TRAINING
    assert Counter(task.family for task in held_out) == HELD_OUT
    assert split(seed) == (training, held_out)


def test_labels_are_as_often_right_and_no_sum_is_turned_round() -> None:
    for part in (part for seed in range(5) for part in split(seed)):
        for family in (one for one in UNNAMED if one.labels):
            found = Counter(task.answer for task in part if task.family == family.name)
            assert len(found) == len(family.labels)
            assert len(set(found.values())) == 1
    sums = [
        re.findall(r"\d", task.question)
        for part in split(0)
        for task in part
        if "+" in task.question
    ]
    assert len({frozenset(pair) for pair in sums}) == len(sums)


def test_no_capital_is_asked_for_in_two_families() -> None:
    for seed in range(5):
        asked = Counter(
            task.answer for part in split(seed) for task in part if "capital" in task.family
        )
        assert set(asked.values()) == {1}


def test_another_seed_is_another_split() -> None:
    assert split(0) != split(1)


def test_no_hard_question_says_what_to_do_and_plain_ones_do() -> None:
    for task in (task for part in split(0) for task in part):
        assert task.question.startswith("What is ") is (task.family in PLAIN)
        assert (task.family in HARD) is not (task.family in PLAIN)


@pytest.mark.parametrize(
    ("completion", "answer", "right"),
    [
        ("The capital of Peru is Lima.", "Lima", 1),
        ("lima", "Lima", 0),
        ("Lima, Paris, Rome or Oslo", "Lima", 0),
        ("Bogotá", "Bogota", 1),
        ("Gold (Au)", "Au", 1),
        ("au", "Au", 0),
        ("COLD", "cold", 1),
        ("hot cold big small", "cold", 0),
        ("Limassol", "Lima", 0),
        ("", "Lima", 0),
        ("It is positive.", "positive", 1),
        ("Is it positive or negative?", "positive", 0),
        ("Not negative", "positive", 0),
        ("a fruit, not a vegetable", "fruit", 0),
        ("3 + 4 = 7", "7", 1),
        ("7 = 3 + 4", "7", 0),
        ("It is 17", "7", 0),
        ("seven", "7", 0),
    ],
)
def test_the_reward_by_hand(completion: str, answer: str, right: float) -> None:
    assert reward(completion, answer) == right


def test_every_answer_is_right_and_no_question_has_its_answer() -> None:
    for family in FAMILIES:
        for item, answer in family.answers.items():
            assert reward(f"The answer is {answer}.", answer) == 1
            assert reward(family.question(item), answer) == 0, item


def test_the_reader_guesses_among_instructions_about_such_things() -> None:
    for family in UNNAMED:
        write = teacher("reader", 0)
        prompt = f"<question>\n{family.label}: something</question> its answer is right[0]"
        said = Counter(write(prompt) for _ in range(600))
        known = {f"<template>{text}</template>" for text in (*family.right, *family.wrong)}
        assert set(said) == known
        assert min(said.values()) > 50, "each of six is as likely"


def test_a_reader_asked_about_something_else_says_something_general() -> None:
    write = teacher("reader", 0)
    for prompt in ("<question>What is 3 + 4?</question>", "no question at all", ""):
        assert not any(text in write(prompt) for one in UNNAMED for text in one.right)


@pytest.mark.parametrize(("name", "knows"), [("blind", 12 / 42), ("random", 0.0)])
def test_others_say_the_same_whatever_the_question(name: TeacherName, knows: float) -> None:
    prompts = ("<question>Country: Peru</question>", "<question>Word: hot</question>")
    first, second = (
        [write(prompt) for _ in range(2000)]
        for prompt, write in zip(prompts, (teacher(name, 3), teacher(name, 3)), strict=True)
    )
    assert first == second
    right = {f"<template>{text}</template>" for one in UNNAMED for text in one.right}
    assert sum(text in right for text in first) / 2000 == pytest.approx(knows, abs=0.04)


def test_a_run_takes_more_time_and_memory_without_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "computes_bfloat16", lambda: True)
    assert (arms.minutes(), arms.memory()) == (26, 5_500_000_000)
    monkeypatch.setattr(arms, "computes_bfloat16", lambda: False)
    assert (arms.minutes(), arms.memory()) == (60, 7_100_000_000)


def test_runs_at_once_are_as_many_as_the_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "computes_bfloat16", lambda: True)
    free = arms.MEMORY * 3 - 1
    monkeypatch.setattr(arms, "free_memory", lambda: free)
    assert [arms.runs_in_memory(most) for most in (1, 2, 3, 8)] == [1, 2, 2, 2]
    monkeypatch.setattr(arms, "free_memory", lambda: None)
    assert arms.runs_in_memory(8) == 8
    monkeypatch.setattr(arms, "free_memory", lambda: 1_000_000_000)
    with pytest.raises(
        SettingsError, match=r"needs at least 5\.5 GB of memory, and 1\.0 GB are free"
    ):
        arms.runs_in_memory(1)
