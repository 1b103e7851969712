"""Find a dataset row by the fields the trainer passes on (rendered prompt, label)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prompt_coevo.adapters.common.questions import QuestionIndex, content_id
from prompt_coevo.errors import DatasetError


class RowLookup:
    """A lookup from passed-on fields to row numbers. `parts` holds each row's fields, `names` their names
    for error messages."""

    def __init__(self, parts: Iterable[Sequence[object]], names: str) -> None:
        self._keys = [content_id(*row) for row in parts]
        self._numbers = {key: number for number, key in enumerate(self._keys)}
        self._names = names

    def number(self, *parts: object) -> int:
        """Return the number of the row with these fields, the last of equal ones. Raises KeyError."""
        return self._numbers[content_id(*parts)]

    def check(self, questions: QuestionIndex) -> None:
        """Raise DatasetError unless the fields identify the question. `questions` index the same rows."""
        for number, key in enumerate(self._keys):
            other = self._numbers[key]
            if questions.id_at(other) != questions.id_at(number):
                raise DatasetError(
                    f"rows {number} and {other} of the training dataset have the same {self._names} but "
                    "different question ids, and the trainer passes on no other field to tell them apart; "
                    "leave one of them out"
                )
