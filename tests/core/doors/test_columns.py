from __future__ import annotations

import pytest

from prompt_coevo.doors.columns import missing_column, require_column, truth_column
from prompt_coevo.errors import DatasetError

COLUMNS = ["id", "prompt", "answer"]


def test_a_column_that_is_there() -> None:
    require_column("prompt", COLUMNS)


def test_one_that_is_not_there_and_near_to_none() -> None:
    with pytest.raises(DatasetError) as raised:
        require_column("x", COLUMNS, " (question_id_column)")
    assert str(raised.value) == (
        "the training dataset has no column 'x' (question_id_column); it has: id, prompt, answer"
    )


def test_a_near_name_is_suggested() -> None:
    assert str(missing_column("anwser", COLUMNS)).endswith("answer; did you mean 'answer'?")


def test_the_truth_is_looked_for_in_the_order_of_the_usual_names() -> None:
    usual = ("ground_truth", "solution", "answer")
    assert truth_column("auto", [*COLUMNS, "solution"], usual) == "solution"
    assert truth_column("auto", COLUMNS, usual) == "answer"
    assert truth_column("prompt", COLUMNS, usual) == "prompt"
    assert truth_column(None, COLUMNS, usual) is None


def test_a_truth_that_is_nowhere() -> None:
    with pytest.raises(DatasetError, match="has none of the columns label, target; set"):
        truth_column("auto", COLUMNS, ("label", "target"))
    with pytest.raises(DatasetError, match=r"no column 'no' \(ground_truth_column\)"):
        truth_column("no", COLUMNS, ("answer",))
