"""The trainer's dataset, read as questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prompt_coevo.doors.columns import require_column, truth_column
from prompt_coevo.doors.questions import QuestionIndex, check_dataset, check_text_only
from prompt_coevo.settings import Settings

if TYPE_CHECKING:
    from datasets import Dataset

_TRUTH_COLUMNS: Final = ("ground_truth", "answer", "solution", "target", "label")


def index_questions(dataset: Dataset, settings: Settings) -> QuestionIndex:
    """The questions of a TRL dataset.

    Raises DatasetError if the dataset is empty, lacks a column, has prompts that a template cannot be
    put into, or has one id for two different questions.
    """
    check_dataset(dataset)
    columns = list(getattr(dataset, "column_names", None) or dataset[0])
    require_column("prompt", columns, " (the prompts that GRPOTrainer trains on)")
    id_column = settings.question_id_column
    if id_column is not None:
        require_column(id_column, columns, " (question_id_column)")
    for name in settings.row_columns:
        require_column(name, columns, " (row_columns)")
    truth = truth_column(settings.ground_truth_column, columns, _TRUTH_COLUMNS)
    return QuestionIndex(
        dataset,
        prompt=lambda row: row["prompt"],
        truth=lambda row: None if truth is None else row.get(truth),
        own_id=None if id_column is None else lambda row: row[id_column],
        columns=lambda row: {name: row[name] for name in settings.row_columns},
        check=lambda row, number: check_text_only(row["prompt"], number),
    )
