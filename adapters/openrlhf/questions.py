"""OpenRLHF's prompt dataset with the original chats; OpenRLHF itself keeps rendered texts only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset
from openrlhf.datasets import PromptDataset
from transformers import AutoConfig

from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.adapters.common.length_gate import PromptLimit, check_questions, tokens_needed
from prompt_coevo.adapters.common.open_engine import open_engine
from prompt_coevo.adapters.common.questions import QuestionIndex, content_id
from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.adapters.openrlhf.placed_text import PlacedPrompt
from prompt_coevo.adapters.openrlhf.row_lookup import RowLookup
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.placement import Prompt
from prompt_coevo.rendered import ChatReader
from prompt_coevo.settings import Settings
from prompt_coevo.types import Assignment


class CoevoPromptDataset(PromptDataset):
    """A PromptDataset that knows how it rendered a row's prompt, and can render other prompts likewise."""

    def __init__(self, dataset: Dataset, *args: object, **kwargs: object) -> None:
        super().__init__(dataset, *args, **kwargs)
        data = self.strategy.args.data
        self._rows = dataset
        self._input_key: str = data.input_key
        self._label_key: str | None = data.label_key
        self._is_chat: bool = data.apply_chat_template
        self._read_chat = ChatReader(self.tokenizer)
        pairs = zip(self.prompts, self.labels, strict=True)
        self._handed_on = RowLookup(pairs, "prompt and label")

    def raw(self, rendered: str, label: object) -> Row:
        """Return the row that a rendered prompt came from. Raises KeyError."""
        row: Row = self._rows[self._handed_on.number(rendered, label)]
        return row

    def prompt(self, row: Row) -> Prompt:
        """Return the prompt of a raw row: a chat, or a text where no chat template is applied."""
        prompt = row[self._input_key]
        if self._is_chat and isinstance(prompt, str):
            return [{"role": "user", "content": prompt}]
        if isinstance(prompt, str):
            return prompt if self.input_template else self._read_chat(prompt)
        return list(prompt)

    def label(self, row: Row) -> object:
        """Return the label of a raw row as OpenRLHF does: a text, or whatever the reward function reads."""
        return "" if self._label_key is None else row[self._label_key]

    def render(self, prompt: Prompt) -> str:
        """Render a prompt to the text that OpenRLHF would make of it."""
        if not isinstance(prompt, str):
            template = self.tokenizer.apply_chat_template
            return str(template(prompt, tokenize=False, add_generation_prompt=True))
        return str(self.input_template.format(prompt) if self.input_template else prompt)

    def place(self, assignment: Assignment, row: Row, question: str | None = None) -> str:
        """Return the rendered prompt that a rollout is sampled with.

        `question` is the row's own prompt as OpenRLHF rendered it; it is used unchanged.
        """
        prompt = self.prompt(row)
        placed = assignment.rollout_prompt(prompt)
        question = question or self.render(prompt)
        if placed == prompt:
            return question
        return PlacedPrompt.of(self.render(placed), question)

    def place_group(
        self, assignments: Sequence[Assignment], row: Row, question: str
    ) -> list[tuple[str, str]]:
        """Return the prompts that a row's rollouts are sampled with and trained on; args as in `place`.

        Rollouts under the same texts share them, because rendering a chat takes longer than the rest.
        """
        made: dict[object, tuple[str, str]] = {}
        found = []
        for one in assignments:
            key = (one.instruction, one.template, one.placement, one.distill)
            if key not in made:
                sampled = self.place(one, row, question)
                made[key] = sampled, self._trained(one, row, question) or str(sampled)
            found.append(made[key])
        return found

    def _trained(self, assignment: Assignment, row: Row, question: str) -> str | None:
        """Return the prompt that a distilled rollout is trained on: most often the question unchanged."""
        if not assignment.distilled:
            return None
        prompt = self.prompt(row)
        trained = assignment.train_prompt(prompt)
        return question if trained == prompt else self.render(trained)

    def index(self, settings: Settings) -> QuestionIndex:
        """Index the questions of this dataset. Raises DatasetError.

        A question is identified by its prompt and its label, which decides a response's reward.
        """
        questions = index_columns(
            self._rows,
            settings,
            usual_truths=() if self._label_key is None else (self._label_key,),
            prompt=self.prompt,
            content=lambda row: content_id(self.prompt(row), self.label(row)),
        )
        self._handed_on.check(questions)
        return questions

    def prompt_limit(self) -> PromptLimit:
        """Return the limit. OpenRLHF cuts longer prompts at the left, instruction first, with a warning."""
        args = self.strategy.args
        room = args.data.max_len - (args.rollout.max_new_tokens or 1)
        return PromptLimit(
            lambda prompts: tokens_needed(self.tokenizer, list(map(self.render, prompts))),
            lambda: room,
            "--data.max_len leaves room for",
        )

    def open_engine(
        self, settings: Settings, output_dir: Path | None
    ) -> tuple[QuestionIndex, Coevolution]:
        """Index this dataset, for training, and build the engine on it. Raises DatasetError, or HostError
        for a question that is too long, and whatever `open_engine` raises."""
        questions, limit = self.index(settings), self.prompt_limit()
        check_questions(questions, limit)
        model = self.strategy.args.actor.model_name_or_path
        engine = open_engine(
            "openrlhf",
            settings,
            questions,
            limit,
            output_dir=output_dir,
            tokenizer=self.tokenizer,
            # OpenRLHF always trusts the model's code, and has loaded it by now.
            model_config=AutoConfig.from_pretrained(model, trust_remote_code=True),
            initial_policy=model,
        )
        return questions, engine
