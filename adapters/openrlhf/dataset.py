"""OpenRLHF's prompt dataset, which keeps rendered texts only, with the chats that they came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from openrlhf.datasets import PromptDataset

from prompt_coevo.doors.questions import QuestionIndex, Row
from prompt_coevo.errors import DatasetError
from prompt_coevo.placement import Prompt
from prompt_coevo.settings import Settings


class CoevoPromptDataset(PromptDataset):
    """Knows how a row's prompt is written down, so that another one can be written down the same way."""

    def __init__(
        self, dataset: Any, tokenizer: Any, strategy: Any, input_template: Any = None
    ) -> None:
        super().__init__(dataset, tokenizer, strategy, input_template=input_template)
        data = strategy.args.data
        self._rows = dataset
        self._input_key: str = data.input_key
        self._label_key: str | None = data.label_key
        self._is_chat: bool = data.apply_chat_template
        self._numbers = {
            _key(prompt, label): number
            for number, (prompt, label) in enumerate(zip(self.prompts, self.labels, strict=True))
        }

    def raw(self, rendered: str, label: Any) -> Row:
        """The row that a rendered prompt came from. Raises KeyError."""
        row: Row = self._rows[self._numbers[_key(rendered, label)]]
        return row

    def prompt(self, row: Row) -> Prompt:
        """The prompt of a raw row: a chat, or a text where no chat template is applied."""
        prompt = row[self._input_key]
        if self._is_chat and isinstance(prompt, str):
            return [{"role": "user", "content": prompt}]
        return prompt if isinstance(prompt, str) else list(prompt)

    def label(self, row: Row) -> Any:
        """The label of a raw row, as OpenRLHF reads it."""
        return "" if self._label_key is None else row[self._label_key]

    def render(self, prompt: Prompt) -> str:
        """A prompt as the text that OpenRLHF would have made of it."""
        if not isinstance(prompt, str):
            text: str = self.tokenizer.apply_chat_template(
                prompt, tokenize=False, add_generation_prompt=True
            )
            return text
        return str(self.input_template.format(prompt)) if self.input_template else prompt

    def questions(self, settings: Settings) -> QuestionIndex:
        """The questions of this dataset. Raises DatasetError."""
        columns = list(self._rows[0]) if len(self._rows) else []
        truth_column = self._truth_column(settings)
        id_column = settings.question_id_column
        for name in (id_column, truth_column, *settings.row_columns):
            if name is not None and name not in columns:
                raise DatasetError(
                    f"the training dataset has no column {name!r}; it has: {', '.join(columns)}"
                )
        own_id = self._content if id_column is None else lambda row: row[id_column]
        self._check_ids(own_id)
        return QuestionIndex(
            self._rows,
            prompt=self.prompt,
            truth=lambda row: None if truth_column is None else row[truth_column],
            own_id=own_id,
            columns=lambda row: {name: row[name] for name in settings.row_columns},
        )

    def _content(self, row: Row) -> str:
        """A hash of prompt and label: the label decides what a response is worth."""
        return hashlib.sha256(_dumps([self.prompt(row), self.label(row)]).encode()).hexdigest()[:16]

    def _check_ids(self, own_id: Callable[[Row], Any]) -> None:
        """OpenRLHF hands on prompt and label alone, so these must say which question it is."""
        ids = list(map(own_id, self._rows))
        for number, key in enumerate(zip(self.prompts, self.labels, strict=True)):
            other = self._numbers[_key(*key)]
            if ids[other] != ids[number]:
                raise DatasetError(
                    f"rows {number} and {other} of the training dataset have the same prompt and label but "
                    "different question ids; OpenRLHF cannot tell them apart: leave one of them out"
                )

    def _truth_column(self, settings: Settings) -> str | None:
        return (
            self._label_key
            if settings.ground_truth_column == "auto"
            else settings.ground_truth_column
        )


def _key(prompt: str, label: Any) -> tuple[str, str]:
    return prompt, _dumps(label)


def _dumps(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
