"""The rows of a dataset by what a host hands on of them, such as a rendered prompt and a label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prompt_coevo.adapters.common.questions import QuestionIndex, content_id
from prompt_coevo.errors import DatasetError


class RowLookup:
    """`parts` has for each row what is handed on of it; `names` calls that in a sentence."""

    def __init__(self, parts: Iterable[Sequence[object]], names: str) -> None:
        self._keys = [content_id(*row) for row in parts]
        self._numbers = {key: number for number, key in enumerate(self._keys)}
        self._names = names

    def number(self, *parts: object) -> int:
        """The row with these parts, of equal ones the last. Raises KeyError."""
        return self._numbers[content_id(*parts)]

    def check(self, questions: QuestionIndex) -> None:
        """Raise DatasetError unless the parts say which question it is. The index is of the same rows."""
        for number, key in enumerate(self._keys):
            other = self._numbers[key]
            if questions.id_at(other) != questions.id_at(number):
                raise DatasetError(
                    f"rows {number} and {other} of the training dataset have the same {self._names} but "
                    "different question ids, and no more of a row is handed on to tell them apart by: "
                    "leave one of them out"
                )
