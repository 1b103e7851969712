from __future__ import annotations

from typing import Any

import pytest

from prompt_coevo.adapters.common.columns import (
    index_columns,
    index_named,
    missing_column,
    require_column,
    truth_column,
)
from prompt_coevo.adapters.common.questions import QuestionIndex, content_id
from prompt_coevo.errors import DatasetError
from prompt_coevo.settings import Settings

COLUMNS = ["id", "prompt", "answer"]
ROWS = [{"id": f"q{n}", "prompt": f"{n}?", "answer": str(n)} for n in range(3)]
IMAGE = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "why?"}]}]


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


def index(rows: Any = ROWS, **settings: Any) -> QuestionIndex:
    return index_columns(rows, Settings(algorithms=(), question_id_column="id", **settings))


def changed(**changes: Any) -> list[dict[str, Any]]:
    return [{**row, **changes} for row in ROWS]


def without(column: str) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != column} for row in ROWS]


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (without("id"), {}, r"no column 'id' \(question_id_column\); it has: prompt, answer"),
        (without("prompt"), {}, r"no column 'prompt' \(what the policy is trained on\)"),
        (ROWS, {"ground_truth_column": "x"}, r"no column 'x' \(ground_truth_column\)"),
        (ROWS, {"row_columns": ["x"]}, r"no column 'x' \(row_columns\)"),
        (without("answer"), {}, "has none of the columns ground_truth, answer, solution"),
        (changed(prompt=IMAGE), {}, "row 0 of the training dataset has a prompt with images"),
        ([], {}, "the training dataset is empty"),
        (iter(ROWS), {}, "turn an iterable dataset into a datasets.Dataset"),
        ([*ROWS, {**ROWS[1], "answer": "2"}], {}, "the question id 'q1' stands for two different"),
    ],
)
def test_datasets_that_cannot_be_used(rows: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message) as raised:
        index(rows, **settings)
    assert "\n" not in str(raised.value)


def test_rows_that_repeat_are_one_question() -> None:
    assert index([*ROWS, *ROWS]).ids() == ["q0", "q1", "q2"]


def test_equal_texts_with_different_ids_stay_apart() -> None:
    assert index([*ROWS, {**ROWS[1], "id": "other"}]).ids() == ["q0", "q1", "q2", "other"]


def test_a_question_has_its_truth_whatever_it_is() -> None:
    assert index().question("q1").ground_truth == "1"
    assert index(changed(answer=[1, 2])).question("q0").ground_truth == "[1, 2]"
    assert index(without("answer"), ground_truth_column=None).question("q0").ground_truth is None


def test_methods_see_the_columns_that_the_settings_name() -> None:
    questions = index(changed(proof="by hand", other=1), row_columns=["proof"])
    assert questions.question("q0").columns == {"proof": "by hand"}


def named(**settings: Any) -> QuestionIndex:
    """Build rows whose columns are all under `extra`, except for the usual truth."""

    def look_up(row: Any, column: str, setting: str) -> object:
        if column in row["extra"]:
            return row["extra"][column]
        raise missing_column(column, row["extra"], f" ({setting})")

    return index_named(
        [{"text": "one", "truth": "1", "extra": {"id": "a", "other": "2"}}],
        Settings(algorithms=(), **settings),
        look_up,
        prompt=lambda row: row["text"],
        usual_truth=lambda row: row["truth"],
    )


@pytest.mark.parametrize(("column", "truth"), [("auto", "1"), ("other", "2"), (None, None)])
def test_an_adapter_has_its_own_places(column: str | None, truth: str | None) -> None:
    questions = named(
        ground_truth_column=column, question_id_column="id", row_columns=["other", "id"]
    )
    question = questions.question("a")
    assert question.ground_truth == truth
    assert question.columns == {"other": "2", "id": "a"}


@pytest.mark.parametrize("setting", ["ground_truth_column", "question_id_column", "row_columns"])
def test_an_adapter_is_told_which_setting_it_was(setting: str) -> None:
    value: Any = ["no"] if setting == "row_columns" else "no"
    with pytest.raises(DatasetError, match=f"has no column 'no' .{setting}."):
        named(**{setting: value})


@pytest.mark.parametrize(
    ("dataset", "problem"),
    [
        ({"prompt": ["a", "b"]}, "must have columns by name"),
        (["a", "b"], "must have columns by name"),
        ([ROWS[0], "b"], "row 1 of the training dataset lacks one of the columns prompt"),
        (
            [ROWS[0], {"answer": "1"}],
            "row 1 of the training dataset lacks one of the columns prompt",
        ),
    ],
)
def test_rows_of_another_form_are_refused(dataset: Any, problem: str) -> None:
    with pytest.raises(DatasetError, match=problem):
        index_columns(dataset, Settings())


ONE_PROMPT = [{"prompt": "why?", "tests": [n], "level": 1} for n in range(2)]


def test_without_a_truth_rows_are_told_apart_by_all_columns() -> None:
    """Rows without a truth differ by all columns, because a reward may read any of them."""
    questions = index_columns(ONE_PROMPT * 2, Settings(algorithms=(), ground_truth_column=None))
    assert len(questions) == 2
    ids = questions.ids_of(ONE_PROMPT)
    assert [questions.row(one)["tests"] for one in ids] == [[0], [1]]
    # A trainer may add to a row what its agents returned.
    assert questions.ids_of([{**row, "searches": 3} for row in ONE_PROMPT]) == ids


def test_what_is_no_json_tells_nothing_apart() -> None:
    rows = [{"prompt": "why?", "image": object()} for _ in range(2)]
    assert len(index_columns(rows, Settings(algorithms=(), ground_truth_column=None))) == 1


def test_ids_by_prompt_and_truth_stay_as_they_are() -> None:
    """Ids are in journals and checkpoints, so more columns must not change them where there is a truth."""
    rows = [{"prompt": "two and two?", "answer": "4", "level": n} for n in range(2)]
    assert index_columns(rows, Settings(algorithms=())).ids() == ["99531aebd151a400"]
    alone = index_columns([{"prompt": "why?"}], Settings(algorithms=(), ground_truth_column=None))
    assert alone.ids() == [content_id("why?", None)]
