from __future__ import annotations

import pytest

from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.openrlhf.row_lookup import RowLookup
from prompt_coevo.errors import DatasetError

ROWS = [
    {"id": "a", "prompt": "one?", "label": "1"},
    {"id": "b", "prompt": "one?", "label": "2"},
    {"id": "a", "prompt": "one?", "label": "1"},
]


def index() -> QuestionIndex:
    return QuestionIndex(
        ROWS,
        prompt=lambda row: row["prompt"],
        truth=lambda row: row["label"],
        own_id=lambda row: row["id"],
    )


def test_a_row_is_found_by_its_parts() -> None:
    handed_on = RowLookup([(row["prompt"], row["label"]) for row in ROWS], "prompt and label")
    handed_on.check(index())
    assert (handed_on.number("one?", "2"), handed_on.number("one?", "1")) == (1, 2)
    with pytest.raises(KeyError):
        handed_on.number("one?", "3")


def test_parts_that_do_not_tell_questions_apart() -> None:
    handed_on = RowLookup([(row["prompt"],) for row in ROWS], "prompt")
    with pytest.raises(DatasetError) as raised:
        handed_on.check(index())
    assert "rows 1 and 2 of the training dataset have the same prompt but" in str(raised.value)
