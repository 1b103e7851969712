"""The trainer's dataset as questions with ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappush, heappushpop
from typing import Any, Final

from prompt_coevo.adapters.common.rows import Row, Rows, rows_of
from prompt_coevo.engine.identity import Dataset
from prompt_coevo.errors import DatasetError
from prompt_coevo.placement import Placement, Prompt, system_message
from prompt_coevo.types import Question

LONGEST_KEPT: Final = 32
"""Prompts kept, the longest by characters; almost certainly the longest in tokens is among them."""
LATE_KEPT: Final = 16_384
"""Late questions kept besides those in use: no method knows outcomes on more questions than that."""


class QuestionIndex:
    """Maps rows to question ids and ids to rows.

    `dataset` has a length and rows that can be looked up by number. `prompt` and `truth` read a row, and
    so does `own_id` if questions bring an id; without it the id is a hash of prompt and ground truth.
    `columns` reads what else methods may see of a row. All rows are read once, through `scan` where that
    costs less than single look-ups. Raises DatasetError if the dataset is empty, cannot be looked up by
    number, or has one id for two different questions.

    Questions that are not in the dataset can be learned when training meets them (`learn`); their rows are
    kept here. `streamed`: the dataset holds only the first rows of a stream.
    """

    def __init__(
        self,
        dataset: Rows,
        *,
        prompt: Callable[[Row], Prompt],
        truth: Callable[[Row], object],
        own_id: Callable[[Row], object] | None = None,
        columns: Callable[[Row], Row] = lambda row: {},
        check: Callable[[Row, int], None] = lambda row, number: None,
        scan: Iterable[Row] | None = None,
        streamed: bool = False,
    ) -> None:
        check_dataset(dataset)
        self.streamed = streamed
        self._check = check
        self._dataset = dataset
        self._prompt = prompt
        self._read_truth = truth
        self._own_id = own_id
        self._columns = columns
        self._rows: dict[str, int] = {}
        self._id_at: list[str] = []
        self._late: dict[str, Row] = {}
        self._met: dict[str, None] = {}
        self._late_count = 0
        self._forget_at = LATE_KEPT * 5 // 4
        self._shapes: set[object] = set()
        self._longest: list[tuple[int, int, Prompt]] = []
        self._system_messages: set[str | None] = set()
        self.identity = self._go_over(rows_of(dataset) if scan is None else scan)
        """The dataset that a resumed run must be given again."""

    def _go_over(self, rows: Iterable[Row]) -> Dataset:
        fingerprints: dict[str, str] = {}
        for number, row in enumerate(rows):
            prompt, written = self._checked(row, number)
            fingerprint = _hash_of(written, _written(self._truth(row)))
            question_id = fingerprint if self._own_id is None else str(self._own_id(row))
            if fingerprints.setdefault(question_id, fingerprint) != fingerprint:
                raise DatasetError(
                    f"the question id {question_id!r} stands for two different questions, in rows "
                    f"{self._rows[question_id]} and {number} of the training dataset; "
                    "give every question an id of its own"
                )
            first = self._rows.setdefault(question_id, number)
            if first == number:
                self._note_prompt(prompt, len(written), number)
            self._id_at.append(self._id_at[first] if first < number else question_id)
        return Dataset.of(list(fingerprints.values()))

    def _checked(self, row: Row, number: int) -> tuple[Prompt, str]:
        """Return a row's prompt and the prompt as JSON. Raises DatasetError."""
        self._check(row, number)
        prompt = self._prompt(row)
        if (shape := _shape(prompt)) not in self._shapes:
            check_question(prompt, number)
            self._shapes.add(shape)
        self._columns(row)  # so a missing column shows before training
        return prompt, _written(prompt)

    def _note_prompt(self, prompt: Prompt, length: int, number: int) -> None:
        full = len(self._longest) == LONGEST_KEPT
        (heappushpop if full else heappush)(self._longest, (length, number, prompt))
        if len(self._system_messages) < 2:
            self._system_messages.add(system_message(prompt))

    def learn(self, row: Row) -> None:
        """Keep the row of a question that is not in the dataset; a known question stays unchanged.

        Raises DatasetError for a row that cannot be used, and for a stream's row whose id belongs to
        another question.
        """
        question_id = self.id_of(row)
        if question_id not in self:
            number = len(self._dataset) + self._late_count
            prompt, written = self._checked(row, number)
            self._note_prompt(prompt, len(written), number)
            self._late_count += 1
            self._late[question_id] = dict(row)
            self._met[question_id] = None
        elif (
            self.streamed
            and self._own_id is not None
            and self._fingerprint(row) != self._fingerprint(self.row(question_id))
        ):
            raise DatasetError(
                f"the question id {question_id!r} stands for two different questions of the training "
                "dataset; give every question an id of its own"
            )

    @property
    def overfull(self) -> bool:
        """Check whether it is time to `forget`: now and then, because that scans all late questions."""
        return len(self._late) > self._forget_at

    def came(self, ids: Iterable[str]) -> None:
        """Note that these questions are in a round, so that the late ones are forgotten last."""
        for question_id in ids:
            if question_id in self._late:
                del self._met[question_id]
                self._met[question_id] = None

    def to_forget(self, in_use: Collection[str], this_round: Collection[str]) -> list[str]:
        """Return the late questions to forget: not in use, not in this round (about to be trained on), and
        not among the 16 384 others that came most recently."""
        others = [one for one in self._met if one not in in_use]
        gone = others[: max(0, len(others) - LATE_KEPT)]
        return [one for one in gone if one not in this_round]

    def forget(self, ids: Iterable[str]) -> None:
        """Remove these late questions."""
        for question_id in ids:
            if self._late.pop(question_id, None) is not None:
                del self._met[question_id]
        self._forget_at = len(self._late) + LATE_KEPT // 4

    @property
    def late(self) -> Mapping[str, Row]:
        """Return the learned rows by question id, in the order in which they were learned."""
        return self._late

    def __len__(self) -> int:
        return len(self._rows) + len(self._late)

    def __contains__(self, question_id: str) -> bool:
        return question_id in self._rows or question_id in self._late

    @property
    def rows(self) -> int:
        """Return the number of dataset rows, without late ones; several rows may be one question."""
        return len(self._id_at)

    def id_of(self, row: Row) -> str:
        """Return the question id of a dataset row."""
        return self._fingerprint(row) if self._own_id is None else str(self._own_id(row))

    def id_at(self, number: int) -> str:
        """Return the question id of the dataset's row with this number."""
        return self._id_at[number]

    def ids_of(self, rows: Sequence[Row]) -> list[str]:
        """Return the ids of a batch's rows. Equal neighbours, as in a group, are read once."""
        ids: list[str] = []
        for number, row in enumerate(rows):
            ids.append(ids[-1] if self._like_the_one_before(rows, number) else self.id_of(row))
        return ids

    def distinct(self, rows: Sequence[Row]) -> list[Row]:
        """Drop rows that equal the row before them."""
        return [row for n, row in enumerate(rows) if not self._like_the_one_before(rows, n)]

    def _like_the_one_before(self, rows: Sequence[Row], number: int) -> bool:
        return number > 0 and self._identity(rows[number]) == self._identity(rows[number - 1])

    def row(self, question_id: str) -> Row:
        """Return the dataset row of a question, as the trainer gets it. Raises KeyError."""
        late = self._late.get(question_id)
        return dict(self._dataset[self._rows[question_id]] if late is None else late)

    def question(self, question_id: str) -> Question:
        """Return the question with this id. Raises KeyError."""
        row = self.row(question_id)
        return Question(question_id, self._prompt(row), self._truth(row), self._columns(row))

    def ids(self) -> list[str]:
        """Return all question ids in dataset order, then the late ones in the order they were learned."""
        return [*self._rows, *self._late]

    def first_prompt(self) -> Prompt:
        """Return the prompt of the dataset's first row."""
        return self._prompt(self._dataset[0])

    def shared_system_message(self) -> str | None:
        """Return the system message that all questions share, or None if they differ."""
        return next(iter(self._system_messages)) if len(self._system_messages) == 1 else None

    def longest_prompts(self) -> list[Prompt]:
        """Return the 32 prompts with the most characters (all, if there are fewer), the longest last."""
        return [prompt for _, _, prompt in sorted(self._longest, key=lambda one: one[:2])]

    def become(self, other: QuestionIndex) -> None:
        """Turn into the index of another dataset, for every holder of this one."""
        vars(self).update(vars(other))

    def _identity(self, row: Row) -> tuple[object, ...]:
        own = None if self._own_id is None else self._own_id(row)
        return own, self._prompt(row), self._read_truth(row)

    def _truth(self, row: Row) -> str | None:
        truth = self._read_truth(row)
        if truth is None or isinstance(truth, str):
            return truth
        return json.dumps(truth, default=_plain)

    def _fingerprint(self, row: Row) -> str:
        return content_id(self._prompt(row), self._truth(row))


def check_text_only(prompt: Prompt, number: int) -> None:
    """Raise DatasetError unless the prompt is a text or a chat without images; `number` is its row."""
    if isinstance(prompt, str):
        return
    if not isinstance(prompt, Sequence) or not all(map(_is_message, prompt)):
        raise DatasetError(
            f"row {number} of the training dataset has a prompt that is neither a text nor a chat; give it "
            'a text, or messages such as {"role": "user", "content": "text"}'
        )
    for content in [message.get("content") for message in prompt if isinstance(message, Mapping)]:
        if isinstance(content, list) and any(part["type"] != "text" for part in content):
            raise DatasetError(
                f"row {number} of the training dataset has a prompt with images; templates and "
                "instructions can be placed in text prompts only, so vision-language training is not "
                "supported"
            )


def check_question(prompt: Prompt, number: int) -> None:
    """Raise DatasetError if no template can be placed in the prompt; `number` is its row."""
    try:
        Placement().place(prompt, None, "a template")
    except DatasetError as error:
        raise DatasetError(f"row {number} of the training dataset: {error}") from None


def _is_message(message: object) -> bool:
    """Check for a chat message. Its content may be missing, as where an assistant calls a tool."""
    if not isinstance(message, Mapping):
        return False
    content = message.get("content")
    return content is None or isinstance(content, str) or is_parts(content)


def is_parts(content: object) -> bool:
    """Check that a message's content is a list of parts, such as texts and images."""
    if not isinstance(content, list):
        return False
    return all(
        isinstance(part, Mapping)
        and "type" in part
        and (part["type"] != "text" or isinstance(part.get("text"), str))
        for part in content
    )


def content_id(*parts: object) -> str:
    """Hash the parts, as JSON, into an id for something that only its content identifies."""
    return _hash_of(*map(_written, parts))


def _plain(value: Any) -> str:
    """Write a value that JSON has no form for: bytes by their hash, and an image by its pixels, because
    its repr holds a memory address."""
    if isinstance(value, bytes):
        return f"bytes {hashlib.sha256(value).hexdigest()}"
    if hasattr(value, "tobytes") and hasattr(value, "mode"):
        return f"image {value.mode} {value.size} {hashlib.sha256(value.tobytes()).hexdigest()}"
    return str(value)


_written = json.JSONEncoder(sort_keys=True, default=_plain).encode


def _hash_of(*parts: str) -> str:
    """Hash parts that are already written as JSON, as one list."""
    return hashlib.sha256(f"[{', '.join(parts)}]".encode()).hexdigest()[:16]


def _shape(prompt: Prompt) -> object:
    """Return a key such that all prompts with it can hold a template, or none can."""
    if isinstance(prompt, str):
        return None
    return tuple(
        [(str(message.get("role")), _content_shape(message.get("content"))) for message in prompt]
    )


def _content_shape(content: object) -> object:
    if not isinstance(content, list):
        return type(content)
    return tuple([str(part.get("type")) if isinstance(part, Mapping) else None for part in content])


def check_dataset(dataset: Rows | None) -> None:
    """Raise DatasetError unless the dataset has rows that can be looked up by number."""
    if dataset is None or not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise DatasetError(
            "the trainer needs a training dataset whose rows can be looked up again, because hard "
            "questions are revisited; turn an iterable dataset into a datasets.Dataset"
        )
    if len(dataset) == 0:
        raise DatasetError("the training dataset is empty; give the trainer at least one question")
