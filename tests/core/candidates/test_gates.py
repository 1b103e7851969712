from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.candidates import gates
from prompt_coevo.candidates.leaks import LeakGuard

QUESTION = "A train leaves the station at nine and arrives at noon, how fast is it?"
GUARD = LeakGuard([QUESTION], ["2", "forty two kilometres per hour"])


@pytest.mark.parametrize(
    ("text", "changes", "reason"),
    [
        ("Think.", {"finish_reason": "length"}, "cut off"),
        ("Use:\n```\ncode", {}, "fence"),
        ("", {}, "empty"),
        (" \n ", {}, "empty"),
        ("Think.", {"known": {"Think."}}, "already known"),
        ("Think.", {"required_tags": ["<search>"]}, "'<search>' is missing"),
        ("one two three four", {"max_tokens": 3}, "longer than 3 tokens"),
        ("x" * 1_000_000, {"max_tokens": 100}, "longer than 100 tokens"),
        (
            "Remember: leaves the station at NINE, and arrives at noon!",
            {"leak_guard": GUARD},
            "copies 8",
        ),
        ("It is forty two kilometres per hour.", {"leak_guard": GUARD}, "ground truth"),
        ("Think.\x00", {}, "U+0000"),
        ("Think.\u202e", {}, "U+202E"),
        ("Think.\u200f", {}, "U+200F"),
        ("Think.\ud800", {}, "U+D800"),
        ("Think. </current_template>", {}, "one of our own tags, </current_template>"),
        ("<INS_2 >Think.", {}, "one of our own tags, <INS_2 >"),
        ("<failure_1>", {"required_tags": ["<failure_2>"]}, "one of our own tags, <failure_1>"),
    ],
)
def test_rejections(text: str, changes: dict[str, object], reason: str) -> None:
    refused = gates.refusal(text, **changes)  # type: ignore[arg-type]
    assert refused is not None
    assert reason in refused


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("Think step by step.\n\tThen answer.", {}),
        ("Use:\n```\ncode\n```", {}),
        ("<search> first", {"required_tags": ["<search>"]}),
        ("<question>", {"required_tags": ["<question>"]}),
        ("Think in <response>.", {"parents": ["Answer in <response>."]}),
        ("<b>bold</b> <answer> a < b <current> <questionnaire>", {}),
        ("one two three", {"max_tokens": 3}),
        ("Trains: at nine and arrives at noon how", {"leak_guard": GUARD}),  # 7 words in a row
        ("The answer is often 2.", {"leak_guard": GUARD}),  # too short a truth to be a leak
        ("Naïve café, 数学, a\u200db", {}),
        ("Think.", {"finish_reason": "stop"}),
    ],
)
def test_acceptances(text: str, changes: dict[str, object]) -> None:
    assert gates.refusal(text, **changes) is None  # type: ignore[arg-type]


def test_the_first_failing_check_names_the_reason() -> None:
    refused = gates.refusal("", finish_reason="length", known={""})
    assert refused == "the reply was cut off at the token limit"


# Lone surrogates included: JSON can carry them, UTF-8 cannot.
ANY_TEXT = st.text(st.characters(exclude_categories=()))
PIECES = st.lists(
    st.sampled_from(
        ["<b>", "</", "<ins_", "<current_", "template", "_1", " ", ">", "```", "\ud800"]
    )
).map("".join)


@given(ANY_TEXT | PIECES)
def test_no_text_raises(text: str) -> None:
    gates.refusal(text, known={"a"}, required_tags=["<b>"], max_tokens=50, leak_guard=GUARD)


@pytest.mark.parametrize("piece", ["<template ", "<current_", "current_1", "_1", " ", "<", "```\n"])
def test_no_long_text_takes_long(piece: str) -> None:
    """The check takes under a second of CPU time; a quadratic one would take minutes."""
    start = time.process_time()
    gates.refusal("<current_a" + piece * 400_000, max_tokens=50, leak_guard=GUARD)
    assert time.process_time() - start < 60


def test_the_length_of_the_ngram_is_a_setting() -> None:
    guard = LeakGuard(["a b c d e"], ngram=3)
    assert guard.find("x b c d y") is not None
    assert guard.find("x b c y") is None


def test_what_the_parent_holds_already_is_no_leak() -> None:
    guard = LeakGuard(["please think step by step now"], ["a long ground truth"], ngram=4)
    parent = "Always think step by step now. Say a long ground truth."
    assert gates.refusal("think step by step now", leak_guard=guard) is not None
    assert gates.refusal("Do think step by step now", parents=[parent], leak_guard=guard) is None
    assert gates.refusal("Say a long ground truth", parents=[parent], leak_guard=guard) is None
    assert gates.refusal("please think step by", parents=[parent], leak_guard=guard) is not None
