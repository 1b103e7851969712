"""Check the answer rules without a model: what patterns accept and reject, and the training files."""

from __future__ import annotations

import random
import re

import pytest
from language_forms import LEFT_OUT, TRAINED, WRONG, instructions, questions

from prompt_coevo.demo.unnamed.tasks import matches

RULES = {rule.name: rule for rule in (*TRAINED, *LEFT_OUT)}


@pytest.mark.parametrize(
    ("rule", "item", "completion", "kept"),
    [
        ("numbered list", "dogs", "1. Dogs bark.\n2. They run.", 1),
        ("numbered list", "dogs", "Here are three facts about dogs:\n\n1. They bark.", 1),
        ("numbered list", "dogs", "1. They bark.", 0),
        ("numbered list", "dogs", "Dogs had 1. place in the race", 0),
        ("poem", "the moon", "The moon is a silver sail,\nA lantern on the hill", 1),
        ("poem", "the moon", "The moon is a satellite. It turns.\nIt has craters and dust", 0),
        ("poem", "the moon", "About the moon:\n\n1. It is round", 0),
        ("code", "trains", "```python\ndef train():\n    pass", 1),
        ("code", "trains", "A train is a vehicle by definition", 0),
        ("letter", "bread", "Dear Anna,\n\nI ate bread today", 1),
        ("letter", "bread", "Bread is dear to me", 0),
        ("headline", "Rome", '"Rome Opens Its Gates"', 1),
        ("headline", "Rome", "Rome is the capital of Italy.", 0),
        ("headline", "Rome", "Rome\n\nA city with a long history", 0),
        ("story", "a knight", "Once upon a time, there was a knight", 1),
        ("story", "a knight", "A knight is a noble soldier", 0),
        ("only the name", "Peru", "Lima.", 1),
        ("only the name", "Peru", "The capital is Lima.", 0),
        ("capital letters", "Peru", "LIMA, OF COURSE!", 1),
        ("capital letters", "Peru", "The capital is LIMA", 0),
        ("tag", "Peru", "It is <answer>Lima</answer>.", 1),
        ("tag", "Peru", "<answer>Quito</answer> Lima", 0),
        ("JSON", "Peru", '{"answer": "Lima"}', 1),
        ("JSON", "Peru", '{"answer": Lima}', 0),
    ],
)
def test_what_keeps_a_rule(rule: str, item: str, completion: str, kept: float) -> None:
    assert matches(completion, RULES[rule].pattern_of(item)) == kept


def test_white_space_at_the_ends_does_not_count() -> None:
    assert matches("\n Lima \n", "Lima") == 1
    assert matches("", "Lima") == matches("Lima and Quito", "Lima") == 0


def test_no_answer_in_one_form_keeps_another_rule() -> None:
    said = {
        "numbered list": "1. About ITEM: first\n2. And more",
        "poem": "O ITEM of the golden morn,\nO wonder of the night",
        "code": "```python\nITEM = 1",
        "letter": "Dear Anna, I thought of ITEM.",
        "headline": "The Truth About ITEM",
        "story": "Once upon a time somebody met ITEM.",
    }
    for rule in TRAINED:
        item, mentioned = next(iter(rule.answers.items()))
        kept = {
            form
            for form, text in said.items()
            if matches(text.replace("ITEM", mentioned), rule.pattern_of(item))
        }
        assert kept == {rule.name}


def test_topics_are_twenty_four_and_in_one_family_only() -> None:
    for rule in TRAINED:
        assert len(rule.answers) == 24
        for item, mentioned in rule.answers.items():
            assert mentioned in rule.question.format(item)
    asked = [row["question"] for row in questions()]
    assert len(set(asked)) == len(asked) == 6 * 24 + 32


def test_a_plain_question_is_answered_in_any_form() -> None:
    rows = [row for row in questions() if row.get("plain")]
    assert {row["family"] for row in rows} == {"capital, asked", "sum, asked"}
    for row in rows:
        if row["family"] == "sum, asked":
            a, b = map(int, re.findall(r"\d+", row["question"]))
            assert matches(f"{a} + {b} = {a + b}.", row["pattern"]) == 1
            assert matches(f"{a + b} = {a} + {b}", row["pattern"]) == 0
            assert matches(f"1{a + b}", row["pattern"]) == 0


def test_the_teacher_knows_every_rule_and_some_that_nobody_wants() -> None:
    from prompt_coevo.demo.unnamed.teachers import drawing

    known = instructions()
    assert len(set(known)) == 2 * len(TRAINED) + len(WRONG)
    write = drawing(known, 0)
    said = {write(f"<question>{random.random()}</question>") for _ in range(500)}
    assert said == {f"<template>{text}</template>" for text in known}
