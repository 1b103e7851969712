"""OpenRLHF's prompt dataset, which keeps rendered texts only, with the chats that they came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openrlhf.datasets import PromptDataset

from prompt_coevo.adapters.openrlhf.host import Label, PlacedPrompt
from prompt_coevo.doors.columns import require_column
from prompt_coevo.doors.questions import QuestionIndex, Row, content_id
from prompt_coevo.errors import DatasetError
from prompt_coevo.placement import Prompt
from prompt_coevo.settings import Settings
from prompt_coevo.tokens import encode
from prompt_coevo.types import Assignment

if TYPE_CHECKING:
    from datasets import Dataset


class CoevoPromptDataset(PromptDataset):
    """Knows how a row's prompt is written down, so that another one can be written down the same way."""

    def __init__(self, dataset: Dataset, *args: object, **kwargs: object) -> None:
        super().__init__(dataset, *args, **kwargs)
        data = self.strategy.args.data
        self._rows = dataset
        self._input_key: str = data.input_key
        self._label_key: str | None = data.label_key
        self._is_chat: bool = data.apply_chat_template
        # By what OpenRLHF hands on of a row: the rendered prompt and the label.
        self._numbers = {
            content_id(*pair): number
            for number, pair in enumerate(zip(self.prompts, self.labels, strict=True))
        }

    def raw(self, rendered: str, label: Label) -> Row:
        """The row that a rendered prompt came from. Raises KeyError."""
        row: Row = self._rows[self._numbers[content_id(rendered, label)]]
        return row

    def prompt(self, row: Row) -> Prompt:
        """The prompt of a raw row: a chat, or a text where no chat template is applied."""
        prompt = row[self._input_key]
        if self._is_chat and isinstance(prompt, str):
            return [{"role": "user", "content": prompt}]
        return prompt if isinstance(prompt, str) else list(prompt)

    def label(self, row: Row) -> Label:
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

    def place(self, assignment: Assignment, row: Row, question: str | None = None) -> str:
        """The prompt that a rollout is sampled with.

        `question` is the row's own as OpenRLHF rendered it, which is taken as it is.
        """
        prompt = self.prompt(row)
        placed = assignment.rollout_prompt(prompt)
        question = question or self.render(prompt)
        if placed == prompt:
            return question
        return PlacedPrompt.of(self.render(placed), question, self._decoded)

    def _decoded(self, text: str) -> str:
        return str(self.tokenizer.decode(encode(self.tokenizer, text)))

    def index(self, settings: Settings) -> QuestionIndex:
        """The questions of this dataset. Raises DatasetError."""
        columns = list(self._rows[0]) if len(self._rows) else []
        id_column, truth_column = settings.question_id_column, settings.ground_truth_column
        if truth_column == "auto":
            truth_column = self._label_key
        for name in (id_column, truth_column, *settings.row_columns):
            if name is not None:
                require_column(name, columns)

        def own_id(row: Row) -> object:
            """A question is its prompt and its label, which decides what a response is worth."""
            content = content_id(self.prompt(row), self.label(row))
            return content if id_column is None else row[id_column]

        self._check_ids(own_id)
        return QuestionIndex(
            self._rows,
            prompt=self.prompt,
            truth=lambda row: None if truth_column is None else row[truth_column],
            own_id=own_id,
            columns=lambda row: {name: row[name] for name in settings.row_columns},
        )

    def _check_ids(self, own_id: Callable[[Row], object]) -> None:
        """OpenRLHF hands on prompt and label alone, so these must say which question it is."""
        ids = list(map(own_id, self._rows))
        for number, pair in enumerate(zip(self.prompts, self.labels, strict=True)):
            other = self._numbers[content_id(*pair)]
            if ids[other] != ids[number]:
                raise DatasetError(
                    f"rows {number} and {other} of the training dataset have the same prompt and label but "
                    "different question ids; OpenRLHF cannot tell them apart: leave one of them out"
                )
