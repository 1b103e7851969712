"""The trainer's dataset, read as questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prompt_coevo.doors.questions import QuestionIndex, check_dataset
from prompt_coevo.errors import DatasetError
from prompt_coevo.settings import Settings

_TRUTH_COLUMNS = ("ground_truth", "answer", "solution", "target", "label")


def index_questions(dataset: Any, settings: Settings) -> QuestionIndex:
    """The questions of a TRL dataset.

    Raises DatasetError if the dataset is empty, lacks a column, has prompts that a template cannot be
    put into, or has one id for two different questions.
    """
    check_dataset(dataset)
    columns = list(getattr(dataset, "column_names", None) or dataset[0])
    _require("prompt", columns, "the prompts that GRPOTrainer trains on")
    id_column = settings.question_id_column
    if id_column is not None:
        _require(id_column, columns, "question_id_column")
    for name in settings.row_columns:
        _require(name, columns, "row_columns")
    truth_column = _truth_column(settings.ground_truth_column, columns)
    return QuestionIndex(
        dataset,
        prompt=lambda row: row["prompt"],
        truth=lambda row: None if truth_column is None else row.get(truth_column),
        own_id=None if id_column is None else lambda row: row[id_column],
        columns=lambda row: {name: row[name] for name in settings.row_columns},
        check=_check_prompt,
    )


def _require(column: str, columns: list[str], what: str) -> None:
    if column not in columns:
        raise DatasetError(
            f"the training dataset has no column {column!r} ({what}); it has: {', '.join(columns)}"
        )


def _truth_column(setting: str | None, columns: list[str]) -> str | None:
    if setting is None:
        return None
    if setting != "auto":
        _require(setting, columns, "ground_truth_column")
        return setting
    for column in _TRUTH_COLUMNS:
        if column in columns:
            return column
    raise DatasetError(
        f"the training dataset has none of the columns {', '.join(_TRUTH_COLUMNS)}; set "
        "ground_truth_column "
        "to the one with the right answer, or to null if there is none"
    )


def _check_prompt(row: Mapping[str, Any], number: int) -> None:
    if isinstance(row["prompt"], str):
        return
    for message in row["prompt"]:
        content = message["content"]
        if isinstance(content, list) and any(part.get("type") != "text" for part in content):
            raise DatasetError(
                f"row {number} of the training dataset has a prompt with images; templates and "
                "instructions "
                "can be placed in text prompts only, so vision-language training is not supported"
            )
