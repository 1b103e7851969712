"""Environments (`environment_factory`): `reset()` decides what is asked, whatever the dataset's row says.

An environment may name its question in an attribute `question_id`, which exists from the beginning and says
after each `reset()` what was asked. Questions are then learned like those of a stream, each with the prompt
that `reset()` made and the row that led to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from prompt_coevo.adapters.common.columns import USUAL_TRUTHS, columns_of, index_columns
from prompt_coevo.adapters.common.policy import RolloutsFailed
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.adapters.trl.host import Trainer
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.adapters.trl.streams import index_stream, is_stream
from prompt_coevo.engine.identity import Dataset
from prompt_coevo.errors import HostError
from prompt_coevo.placement import Prompt
from prompt_coevo.preflight.forecast import few_questions
from prompt_coevo.preflight.page import plural
from prompt_coevo.settings import Settings
from prompt_coevo.settings.method import methods_of

if TYPE_CHECKING:
    import datasets

OWN_ID: Final = "question_id"
_ID: Final = "coevo_question_id"
_ROW: Final = "coevo_row"
_NOT_ASKED: Final = "not asked yet"
_NO_PROMPT: Final = [{"role": "user", "content": ""}]
"""TRL's placeholder for a prompt that only the environment knows."""


class Environments:
    """The environments of a trainer, which may have none."""

    def __init__(self, trainer: Trainer, settings: Settings) -> None:
        self._trainer = trainer
        self._settings = settings
        self._by_question = [
            name for name, method in methods_of(settings).items() if "template" in method.provides
        ]
        """The methods that need to recognise questions."""
        first = _first_of_each(trainer)
        self._there = bool(first)
        needed = bool(self._by_question) and settings.question_id_column is None
        self.name_questions = needed and self._there and all(map(_may_name, first))
        """True if a round's questions are known only after `reset()`, which names them."""

    def index(
        self,
        dataset: datasets.Dataset | datasets.IterableDataset,
        ranks: Ranks,
        read_chat: Callable[[Prompt], Prompt],
    ) -> QuestionIndex:
        """Index the questions of the trainer's dataset.

        Where environments name the questions, only the first row is indexed, for the checks before
        training. Raises DatasetError, or HostError if a method could not recognise questions.
        """
        if self.name_questions:
            return self._first_look(dataset, ranks, read_chat)
        if is_stream(dataset):
            questions = index_stream(dataset, self._settings, ranks, read_chat)
        else:
            questions = index_columns(
                dataset,
                self._settings,
                _truths(columns_of(dataset)) if self._there else USUAL_TRUTHS,
                read_chat=read_chat,
                no_prompt=_NO_PROMPT if self._there else None,
            )
        if self._there and self._by_question:
            self._check_told_apart(questions)
        return questions

    def named(self, rows: Sequence[Row], prompts: Sequence[Prompt]) -> list[Row]:
        """Return rows of the questions that were asked for these rows, with their prompts. Raises
        HostError."""
        triples = zip(rows, prompts, self._asked(), strict=True)
        return [_named(row, prompt, asked) for row, prompt, asked in triples]

    def check_asked(self, question_ids: Sequence[str]) -> None:
        """Raise RolloutsFailed unless these questions were asked again, HostError if one has no name."""
        if not self.name_questions:
            return
        for wanted, asked in zip(question_ids, self._asked(), strict=True):
            if wanted not in (asked, _NOT_ASKED):
                raise RolloutsFailed(
                    f"an environment asked {asked!r} where it was given the row of {wanted!r}, so rollouts "
                    "outside training cannot be had; its reset() must ask the same of the same row"
                )

    def _asked(self) -> list[str]:
        environments: Sequence[object] = self._trainer.environments or ()
        return [_name_of(one) for one in environments]

    def _first_look(
        self, dataset: Iterable[Row], ranks: Ranks, read_chat: Callable[[Prompt], Prompt]
    ) -> QuestionIndex:
        first = ranks.broadcast(dict(next(iter(dataset))) if ranks.is_main else None)
        questions = index_columns(
            [_named(first, first.get("prompt", _NO_PROMPT), _NOT_ASKED)],
            self._settings,
            _truths(first),
            content=lambda row: row[_ID],
            read_chat=read_chat,
            streamed=True,
        )
        questions.identity = Dataset(0, "questions that environments name")
        return questions

    def _check_told_apart(self, questions: QuestionIndex) -> None:
        few = few_questions(questions.rows, len(questions), None) is not None
        if few or (len(questions) == 1 and questions.first_prompt() == _NO_PROMPT):
            raise HostError(
                "what an environment asks is known after its reset() alone, and the training dataset has "
                f"{plural(len(questions), 'question')} in {plural(questions.rows, 'row')}, so "
                f"{', '.join(self._by_question)} cannot know which are hard; give each "
                f"environment an attribute {OWN_ID} (None in __init__, named by reset()), or the dataset a "
                "column of ids (question_id_column)"
            )


def row_of(row: Row) -> Row:
    """Return the dataset's own row of a question, which the trainer is given."""
    own: Row = row.get(_ROW, row)
    return own


def _first_of_each(trainer: Trainer) -> list[object]:
    """Return an instance of each environment. TRL makes one when the trainer is built."""
    pool = getattr(trainer, "_environment_pool", None)
    if pool is not None:
        return [instances[0] for instances in pool.values()]
    return list(getattr(trainer, "environments", None) or ())[:1]  # before 1.16 there is one kind


def _truths(columns: Iterable[str]) -> Sequence[str]:
    """Return the columns that may hold the right answer. None is needed with an environment, which may be
    all that knows the answer."""
    known = set(columns)
    return [name for name in USUAL_TRUTHS if name in known]


def _may_name(environment: object) -> bool:
    """Check for the attribute, on the class first: a property may raise before `reset()`."""
    return hasattr(type(environment), OWN_ID) or hasattr(environment, OWN_ID)


def _named(row: Row, prompt: Prompt, question_id: str) -> Row:
    return {**row, "prompt": prompt, _ID: question_id, _ROW: dict(row)}


def _name_of(environment: object) -> str:
    found = getattr(environment, OWN_ID, None)
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise HostError(
            f"the environment {type(environment).__name__} has {OWN_ID} = {found!r} after reset(); set it "
            "there to a text or a number that names the question"
        )
    return str(found)
