"""The trainer's dataset as questions with ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from prompt_coevo.errors import DatasetError
from prompt_coevo.placement import system_message
from prompt_coevo.settings import Settings
from prompt_coevo.types import Question

_TRUTH_COLUMNS = ("ground_truth", "answer", "solution", "target", "label")


class QuestionIndex:
    """Finds a row's question id and an id's row.

    The id is the column that the settings name, else a hash of prompt and ground truth. Raises
    DatasetError if the dataset is empty, lacks a column, has prompts that a template cannot be put
    into, or has one id for two different questions.
    """

    def __init__(self, dataset: Any, settings: Settings) -> None:
        self._dataset = dataset
        columns = _columns(dataset)
        _require("prompt", columns, "the prompts that GRPOTrainer trains on")
        self._id_column = settings.question_id_column
        if self._id_column is not None:
            _require(self._id_column, columns, "question_id_column")
        self._truth_column = _truth_column(settings.ground_truth_column, columns)
        identifying = (self._id_column, "prompt", self._truth_column)
        self._identifying = [name for name in identifying if name is not None]
        self._rows: dict[str, int] = {}
        fingerprints: dict[str, str] = {}
        for number in range(len(dataset)):
            row = dataset[number]
            _check_prompt(row["prompt"], number)
            question_id = self.id_of(row)
            fingerprint = self._fingerprint(row)
            if fingerprints.setdefault(question_id, fingerprint) != fingerprint:
                raise DatasetError(
                    f"the question id {question_id!r} (column {self._id_column!r}) stands for two "
                    "different "
                    f"questions, in rows {self._rows[question_id]} and {number} of the training "
                    "dataset; "
                    "give every question an id of its own"
                )
            self._rows.setdefault(question_id, number)

    def __len__(self) -> int:
        return len(self._rows)

    def id_of(self, row: Mapping[str, Any]) -> str:
        """The question id of a dataset row."""
        if self._id_column is None:
            return self._fingerprint(row)
        return str(row[self._id_column])

    def ids_of(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """The ids of a batch's rows. Equal neighbours, as in a group, are looked at once."""
        ids: list[str] = []
        for number, row in enumerate(rows):
            same = number > 0 and all(
                row.get(name) == rows[number - 1].get(name) for name in self._identifying
            )
            ids.append(ids[-1] if same else self.id_of(row))
        return ids

    def row(self, question_id: str) -> dict[str, Any]:
        """The dataset row of a question, as the trainer gets it. Raises KeyError."""
        return dict(self._dataset[self._rows[question_id]])

    def question(self, question_id: str) -> Question:
        """The question with this id. Raises KeyError."""
        row = self.row(question_id)
        return Question(question_id, row["prompt"], self._truth(row))

    def ids(self) -> list[str]:
        """All question ids, in the order of the dataset."""
        return list(self._rows)

    def shared_system_message(self) -> str | None:
        """The system message that the prompts of all questions have, None if they differ."""
        messages = {system_message(self.row(question_id)["prompt"]) for question_id in self._rows}
        return messages.pop() if len(messages) == 1 else None

    def longest_prompts(self, count: int) -> list[Any]:
        """The prompts with the most characters."""
        prompts = [self._dataset[number]["prompt"] for number in self._rows.values()]
        return sorted(prompts, key=lambda prompt: len(json.dumps(prompt, default=str)))[-count:]

    def _truth(self, row: Mapping[str, Any]) -> str | None:
        if self._truth_column is None or row.get(self._truth_column) is None:
            return None
        truth = row[self._truth_column]
        return truth if isinstance(truth, str) else json.dumps(truth, default=str)

    def _fingerprint(self, row: Mapping[str, Any]) -> str:
        content = json.dumps([row["prompt"], self._truth(row)], sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def _columns(dataset: Any) -> list[str]:
    if dataset is None or not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise DatasetError(
            "the trainer needs a train_dataset whose rows can be looked up again, because hard "
            "questions are "
            "revisited; turn an iterable dataset into a datasets.Dataset"
        )
    if len(dataset) == 0:
        raise DatasetError("the training dataset is empty; give the trainer at least one question")
    return list(getattr(dataset, "column_names", None) or dataset[0])


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


def _check_prompt(prompt: Any, number: int) -> None:
    if isinstance(prompt, str):
        return
    for message in prompt:
        content = message["content"]
        if isinstance(content, list) and any(part.get("type") != "text" for part in content):
            raise DatasetError(
                f"row {number} of the training dataset has a prompt with images; templates and "
                "instructions "
                "can be placed in text prompts only, so vision-language training is not supported"
            )
