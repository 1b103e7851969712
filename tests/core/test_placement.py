from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.errors import DatasetError, SettingsError
from prompt_coevo.placement import Placement, check_layout, fill, question_text, system_message

CHAT = [{"role": "system", "content": "old"}, {"role": "user", "content": "why?"}]


def test_a_string_gets_the_template_first_and_the_instruction_in_front() -> None:
    assert Placement().place("why?", "Think.", "Hint.") == "Think.\n\nHint.\n\nwhy?"


def test_a_chat_gets_a_system_message_and_a_template_before_the_question() -> None:
    placed = Placement().place([{"role": "user", "content": "why?"}], "Think.", "Hint.")
    assert placed == [
        {"role": "system", "content": "Think."},
        {"role": "user", "content": "Hint.\n\nwhy?"},
    ]


def test_a_system_message_is_replaced_not_doubled() -> None:
    placed = Placement().place(CHAT, "new", None)
    assert placed == [{"role": "system", "content": "new"}, {"role": "user", "content": "why?"}]


def test_prefix_mode_leaves_the_system_message() -> None:
    placed = Placement(instruction="prefix").place(CHAT, "Think.", "Hint.")
    assert placed == [CHAT[0], {"role": "user", "content": "Think.\n\nHint.\n\nwhy?"}]


def test_the_last_user_message_is_the_question() -> None:
    chat = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "why?"},
        {"role": "assistant", "content": "because"},
    ]
    placed = Placement().place(chat, None, "Hint.")
    assert [message["content"] for message in placed] == ["hello", "hi", "Hint.\n\nwhy?", "because"]
    assert question_text(chat) == "why?"


def test_a_text_part_is_found_in_a_list_of_parts() -> None:
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "why?"}]}]
    placed = Placement().place(chat, None, "Hint.")
    assert placed[0]["content"][1] == {"type": "text", "text": "Hint.\n\nwhy?"}
    assert question_text(chat) == "why?"


def test_the_input_is_not_changed() -> None:
    chat = [{"role": "user", "content": "why?"}]
    Placement().place(chat, "Think.", "Hint.")
    assert chat == [{"role": "user", "content": "why?"}]


def test_nothing_to_place_gives_the_same_object() -> None:
    assert Placement().place(CHAT, None, "") is CHAT


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        ([{"role": "assistant", "content": "x"}], "no user message"),
        ([{"role": "user", "content": [{"type": "image"}]}], "no text part"),
    ],
)
def test_a_chat_without_a_place_is_refused(chat: list[dict[str, object]], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        Placement().place(chat, None, "Hint.")


TEXTS = st.text() | st.sampled_from(
    ["{{question}}", "{{template}}", "{0}", "{x.__class__}", "%s", "\\1"]
)


@given(TEXTS, TEXTS)
def test_texts_are_inserted_as_they_are(template: str, question: str) -> None:
    placed = fill("{{template}}|{{question}}", template=template, question=question)
    assert placed == template + "|" + question


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("{{question}}", "exactly once, but contains it 0 times"),
        ("{{template}} {{template}} {{question}}", "contains it 2 times"),
        ("{{template}} {{question}} {{answer}}", "unknown placeholder {{answer}}"),
    ],
)
def test_a_bad_layout_is_refused(layout: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message.replace("{", r"\{")):
        check_layout(layout, ["template", "question"], "the layout")


def test_a_message_without_a_content_has_no_text() -> None:
    chat = [{"role": "system", "content": None}, {"role": "user", "content": "why?"}]
    assert system_message(chat) == ""
    assert question_text(chat) == "why?"
    with pytest.raises(DatasetError, match="has no text part"):
        Placement().place([{"role": "user"}], None, "Think.")
