from __future__ import annotations

from typing import Any

import pytest

from prompt_coevo.adapters.common.questions import (
    QuestionIndex,
    check_question,
    check_text_only,
    content_id,
)
from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.errors import DatasetError

ROWS = [
    {"prompt": "two and two?", "truth": "4"},
    {"prompt": "two and two?", "truth": "four"},
    {"prompt": "two and two?", "truth": "4"},
]


def index(**options: Any) -> QuestionIndex:
    return QuestionIndex(
        ROWS, prompt=lambda row: row["prompt"], truth=lambda row: row["truth"], **options
    )


def test_without_ids_prompt_and_truth_tell_questions_apart() -> None:
    questions = index()
    assert questions.ids() == [content_id("two and two?", one) for one in ("4", "four")]
    assert questions.ids_of(ROWS) == [questions.ids()[n] for n in (0, 1, 0)]
    assert questions.question(questions.ids()[1]).ground_truth == "four"


def test_ids_by_content_stay_as_they_are() -> None:
    """Ids are in journals and checkpoints, so they must not change."""
    assert content_id("two and two?", "4") == "99531aebd151a400"


def test_an_image_as_ground_truth_is_the_same_question_each_time_it_is_read() -> None:
    """The id must not depend on the image's repr, which contains a memory address."""

    class Image:
        mode, size = "L", (1, 1)

        def tobytes(self) -> bytes:
            return b"pixel"

    def read() -> QuestionIndex:
        rows = [{"prompt": "what is it?", "truth": Image()}]
        return QuestionIndex(rows, prompt=lambda row: row["prompt"], truth=lambda row: row["truth"])

    assert read().ids() == read().ids()


def test_an_id_for_two_questions_is_refused() -> None:
    with pytest.raises(DatasetError, match="'same' stands for two different .* rows 0 and 1 of"):
        index(own_id=lambda row: "same")


def test_a_prompt_with_an_image_is_refused() -> None:
    text, image = {"type": "text", "text": "why?"}, {"type": "image"}
    check_text_only("why?", 3)
    check_text_only([{"role": "user", "content": [text]}], 3)
    with pytest.raises(
        DatasetError, match="row 3 of the training dataset has a prompt with images"
    ):
        check_text_only([{"role": "user", "content": [image, text]}], 3)


@pytest.mark.parametrize(
    "prompt",
    [
        7,
        None,
        ["why?"],
        [{"role": "user", "content": 7}],
        [{"role": "user", "content": ["why?"]}],
        [{"role": "user", "content": [{"text": "why?"}]}],
        [{"role": "user", "content": [{"type": "text"}]}],
    ],
)
def test_a_prompt_that_is_neither_text_nor_chat_is_refused(prompt: Any) -> None:
    with pytest.raises(DatasetError, match="row 3 .* neither a text nor a chat"):
        check_text_only(prompt, 3)


def test_a_chat_without_a_question_is_refused_before_training() -> None:
    with pytest.raises(DatasetError, match="row 3 of the training dataset: .* no user message"):
        check_question([{"role": "assistant", "content": "why?"}], 3)


@pytest.mark.parametrize("content", [None, []])
def test_a_question_without_text_is_refused_before_training(content: Any) -> None:
    with pytest.raises(DatasetError, match="row 3 of the training dataset: .* has no text part"):
        check_question([{"role": "user", "content": content}], 3)
    rows: list[Row] = [{"prompt": [{"role": "user", "content": content}]}]
    with pytest.raises(DatasetError, match="row 0 of the training dataset: "):
        QuestionIndex(rows, prompt=lambda row: row["prompt"], truth=lambda row: "4")


def test_a_message_may_have_no_content() -> None:
    call = {"role": "assistant", "tool_calls": [{"name": "search"}]}
    check_text_only([{"role": "user", "content": "why?"}, call, {**call, "content": None}], 3)


def test_one_pass_keeps_what_gates_ask_for() -> None:
    """One pass finds the longest prompts and the shared system message, so gates need no second pass."""
    prompts = [
        [{"role": "system", "content": "s"}, {"role": "user", "content": "why? " * (n % 40)}]
        for n in range(100)
    ]
    rows = [{"prompt": prompt} for prompt in prompts]
    questions = QuestionIndex(rows, prompt=lambda row: row["prompt"], truth=lambda row: None)
    assert questions.shared_system_message() == "s"
    by_length = sorted(map(len, (prompt[1]["content"] for prompt in prompts[:40])))
    assert [len(one[1]["content"]) for one in questions.longest_prompts()] == by_length[-32:]
    rows[99] = {"prompt": [{"role": "user", "content": "another"}]}
    questions = QuestionIndex(rows, prompt=lambda row: row["prompt"], truth=lambda row: None)
    assert questions.shared_system_message() is None


def test_every_shape_of_prompt_is_looked_at() -> None:
    fine: list[Any] = ["why?", [{"role": "user", "content": "why?"}]] * 3
    with pytest.raises(DatasetError, match="row 6 of the training dataset: .* no user message"):
        QuestionIndex(
            [{"prompt": one} for one in [*fine, [{"role": "assistant", "content": "why?"}]]],
            prompt=lambda row: row["prompt"],
            truth=lambda row: None,
        )


def test_rows_are_gone_over_as_they_are_scanned() -> None:
    """Ids come from the scanned rows; later lookups read the dataset itself."""
    scanned = [{**row, "prompt": row["prompt"].upper()} for row in ROWS]
    questions = index(scan=scanned)
    assert questions.ids()[0] == questions.id_at(0) == content_id("TWO AND TWO?", "4")
    assert questions.row(questions.id_at(0)) == ROWS[0]


def test_a_role_that_is_no_text_is_refused_as_such() -> None:
    prompt: Any = [{"role": ["user"], "content": "why?"}]
    with pytest.raises(DatasetError, match="row 0 of the training dataset: .* no user message"):
        QuestionIndex(
            [{"prompt": prompt}], prompt=lambda row: row["prompt"], truth=lambda row: None
        )
