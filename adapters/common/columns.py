"""Columns of the trainer's dataset, by the names that the settings give them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from prompt_coevo.adapters.common.questions import (
    QuestionIndex,
    check_dataset,
    check_text_only,
    content_id,
)
from prompt_coevo.adapters.common.rows import Row, Rows
from prompt_coevo.errors import DatasetError
from prompt_coevo.placement import Prompt
from prompt_coevo.settings import Settings
from prompt_coevo.settings.method import columns_read

USUAL_TRUTHS: Final = ("ground_truth", "answer", "solution", "target", "label")
"""Columns searched for the right answer, in this order."""


def index_columns(
    dataset: Rows,
    settings: Settings,
    usual_truths: Sequence[str] = USUAL_TRUTHS,
    *,
    prompt: Callable[[Row], Prompt] | None = None,
    content: Callable[[Row], object] | None = None,
    no_prompt: Prompt | None = None,
    read_chat: Callable[[Prompt], Prompt] = lambda prompt: prompt,
    streamed: bool = False,
) -> QuestionIndex:
    """Index the questions of a dataset by the columns that the settings name.

    `dataset` is a Dataset or a list of rows. `prompt` reads a row's prompt, by default from the column
    `prompt`. `content` tells questions apart where the settings name no id column: by default by prompt
    and truth or, where there is no truth, by prompt and all other columns that can be written as JSON,
    because a reward may read them. `no_prompt` is used where a dataset needs no column `prompt`, because
    something else decides what is asked. `read_chat` finds the parts of a prompt that is a rendered chat
    (`rendered.ChatReader`). `streamed` is passed to QuestionIndex.

    Raises DatasetError if the dataset is empty, lacks a column, has prompts that no template can be placed
    in, or has one id for two different questions.
    """
    check_dataset(dataset)
    if isinstance(dataset, Mapping) or not isinstance(dataset[0], Mapping):
        raise DatasetError(
            "the rows of the training dataset must have columns by name; give the trainer a "
            "datasets.Dataset, or a list of dictionaries"
        )
    columns = columns_of(dataset)
    if prompt is None and no_prompt is None:
        require_column("prompt", columns, " (what the policy is trained on)")
    own_column = prompt is None and "prompt" in columns
    read = prompt or (lambda row: read_chat(row.get("prompt", no_prompt)))
    id_column = settings.question_id_column
    if id_column is not None:
        require_column(id_column, columns, " (question_id_column)")
    read_too = columns_read(settings)
    for name, setting in read_too.items():
        require_column(name, columns, f" ({setting})")
    truth = truth_column(settings.ground_truth_column, columns, usual_truths)
    others = [name for name in columns if name != "prompt"]
    if truth is None and content is None and prompt is None and others:

        def content(row: Row) -> object:
            written = {name: _as_json(row.get(name)) for name in others}
            return content_id(read(row), None, {k: v for k, v in written.items() if v is not None})

    own = () if id_column is None else (id_column,)
    needed = {*(("prompt",) if own_column else ()), *own, *read_too}

    def check(row: Row, number: int) -> None:
        if not isinstance(row, Mapping) or not needed <= row.keys():
            raise DatasetError(
                f"row {number} of the training dataset lacks one of the columns "
                f"{', '.join(sorted(needed))}, which other rows have; give all rows the same"
            )
        check_text_only(read(row), number)

    return QuestionIndex(
        dataset,
        prompt=read,
        truth=lambda row: None if truth is None else row.get(truth),
        own_id=content if id_column is None else lambda row: row[id_column],
        columns=lambda row: {name: row[name] for name in read_too},
        check=check,
        streamed=streamed,
    )


def columns_of(dataset: Rows) -> list[str]:
    """Return the columns of the first row: a dataset's `column_names` are those before a transform."""
    return list(dataset[0]) if len(dataset) else []


def index_named(
    dataset: Rows,
    settings: Settings,
    look_up: Callable[[Row, str, str], object],
    *,
    prompt: Callable[[Row], Prompt],
    usual_truth: Callable[[Row], object],
    check: Callable[[Row, int], None] = lambda row, number: None,
    scan: Iterable[Row] | None = None,
) -> QuestionIndex:
    """Index the questions of a dataset in which `look_up` finds the columns that the settings name.

    `look_up(row, column, setting)` returns a value or raises DatasetError. `usual_truth` reads the right
    answer with `ground_truth_column = "auto"`. All else, with `scan` and the errors, is QuestionIndex's.
    """
    own_id, truth = settings.question_id_column, settings.ground_truth_column
    read_too = columns_read(settings)

    def read_truth(row: Row) -> object:
        if truth is None:
            return None
        return usual_truth(row) if truth == "auto" else look_up(row, truth, "ground_truth_column")

    return QuestionIndex(
        dataset,
        prompt=prompt,
        truth=read_truth,
        own_id=None if own_id is None else lambda row: look_up(row, own_id, "question_id_column"),
        columns=lambda row: {
            name: look_up(row, name, setting) for name, setting in read_too.items()
        },
        check=check,
        scan=scan,
    )


def _as_json(value: object) -> str | None:
    """Write a value as JSON. Return None for one that JSON cannot hold, such as an image."""
    try:
        return json.dumps(value, sort_keys=True, default=lambda array: array.tolist())
    except (AttributeError, TypeError, ValueError):
        return None


def require_column(column: str, columns: Iterable[str], remark: str = "") -> None:
    """Raise DatasetError unless the dataset has this column."""
    known = list(columns)
    if column not in known:
        raise missing_column(column, known, remark)


def missing_column(column: str, columns: Iterable[str], remark: str = "") -> DatasetError:
    """Build the error about a missing column; `remark` says who asked for it."""
    known = list(map(str, columns))
    near = difflib.get_close_matches(column, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return DatasetError(
        f"the training dataset has no column {column!r}{remark}; it has: {', '.join(known)}{hint}"
    )


def truth_column(setting: str | None, columns: Iterable[str], usual: Sequence[str]) -> str | None:
    """Return the column with the right answer: the setting's, or with "auto" the first of `usual` found.

    Return None if the setting is None, or if it is "auto" and `usual` is empty. Raises DatasetError.
    """
    known = list(columns)
    if setting is None or (setting == "auto" and not usual):
        return None
    if setting != "auto":
        require_column(setting, known, " (ground_truth_column)")
        return setting
    for column in usual:
        if column in known:
            return column
    raise DatasetError(
        f"the training dataset has none of the columns {', '.join(usual)}; set ground_truth_column "
        "to the one with the right answer, or to null if there is none"
    )
