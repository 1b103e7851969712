"""Check which columns of a dataset's rows methods may see."""

from __future__ import annotations

from typing import Any

import pytest

from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.rows import Row

ROWS = [{"prompt": "one?", "solution": "1"}, {"prompt": "two?", "solution": "2"}]


def index(**changes: Any) -> QuestionIndex:
    return QuestionIndex(ROWS, prompt=lambda row: row["prompt"], truth=lambda row: None, **changes)


def test_a_question_has_the_columns_that_the_adapter_reads() -> None:
    questions = index(columns=lambda row: {"solution": row["solution"]})
    assert [questions.question(one).columns["solution"] for one in questions.ids()] == ["1", "2"]


def test_without_any_it_has_none() -> None:
    questions = index()
    assert questions.question(questions.ids()[0]).columns == {}


def test_columns_are_read_when_the_dataset_is_so_that_a_missing_one_shows_at_once() -> None:
    def missing(row: Row) -> dict[str, Any]:
        return {"proof": row["proof"]}

    with pytest.raises(KeyError):
        index(columns=missing)


def test_columns_do_not_change_a_questions_id() -> None:
    assert index().ids() == index(columns=lambda row: {"solution": row["solution"]}).ids()
