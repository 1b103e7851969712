"""Streamed datasets: a first look at their rows, and the rows learned later in checkpoints."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from prompt_coevo import files
from prompt_coevo.adapters.common.checkpoint import writing
from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.adapters.common.questions import QuestionIndex, content_id
from prompt_coevo.adapters.common.rows import Row, Rows
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.engine.identity import Dataset
from prompt_coevo.errors import DatasetError, StateError
from prompt_coevo.lines import JSON
from prompt_coevo.markers import PROJECT
from prompt_coevo.placement import Prompt
from prompt_coevo.settings import Settings

logger = logging.getLogger(PROJECT)

LOOKED_AT: Final = 1_000
"""Rows of a first look: what `datasets` reads at once, and enough to see every kind of prompt."""
ROWS_FILE: Final = "coevo_rows.jsonl"
_UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, DatasetError, RecursionError)


def is_stream(dataset: Rows | Iterable[Row]) -> bool:
    """Check for a dataset whose rows can only be iterated over, such as an IterableDataset."""
    # By name: torch is not imported here, and its class gives subclasses a `__getitem__` that raises.
    return any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__)


def index_stream(
    dataset: Iterable[Row],
    settings: Settings,
    ranks: Ranks,
    read_chat: Callable[[Prompt], Prompt] = lambda prompt: prompt,
) -> QuestionIndex:
    """Index the questions of a stream's first 1 000 rows; others are learned when training meets them.

    Rank 0 reads, and all ranks know the same rows. If the stream starts with another row when it is
    iterated again, only its first row is indexed: rows read here may be missing in training, and a resumed
    run cannot tell whether it has the same stream. The log warns of both. Raises DatasetError, as
    `index_columns` does.
    """
    rows, same = ranks.broadcast(_looked_at(dataset) if ranks.is_main else None)
    if not rows:
        raise DatasetError("the training dataset is empty; give the trainer at least one question")
    questions = index_columns(rows, settings, read_chat=read_chat, streamed=True)
    if same:
        logger.info(
            "the training dataset is a stream: found %d questions in its first %d rows; the longest "
            "prompts, the shared system message and the dataset's identity (for a resumed run) come from "
            "these, and other questions are learned when training meets them",
            len(questions),
            len(rows),
        )
    else:
        questions.identity = Dataset(0, "a stream that begins otherwise each time")
        logger.warning(
            "the training dataset is a stream that starts with another row when it is read again: training "
            "may miss up to %d rows that were read in advance, and a resumed run cannot check that it has "
            "the same dataset",
            LOOKED_AT + 2,  # `check_trainer` reads the first row, and `_looked_at` once more
        )
    return questions


def save_late_rows(questions: QuestionIndex, folder: Path) -> None:
    """Write the learned rows into a checkpoint's folder; if there are none, remove an earlier run's file.

    Rows that cannot be written as JSON are left out, with a warning: a resumed run learns them when they
    come again. Raises StateError."""
    path, lines = folder / ROWS_FILE, []
    for row in questions.late.values():
        try:
            lines.append(f"{json.dumps(row)}\n")
        except (TypeError, ValueError):
            continue
    with writing("the stream's rows", path):
        if not questions.late:
            path.unlink(missing_ok=True)
            return
        files.replace(path, "".join(lines).encode())
    if left_out := len(questions.late) - len(lines):
        logger.warning(
            "%d rows of the training dataset cannot be saved as JSON; a run resumed from %s learns them "
            "again when training meets them",
            left_out,
            folder,
        )


def load_late_rows(questions: QuestionIndex, folder: Path, ranks: Ranks) -> None:
    """Learn the rows in a checkpoint's folder; there is no file if none were learned late.

    Rank 0, which wrote them, reads them: another machine may not have the folder. Raises StateError for a
    damaged file, on every rank.
    """
    path = folder / ROWS_FILE
    path, (rows, damage) = ranks.broadcast((path, _read(path)) if ranks.is_main else None)
    try:
        for row in rows:
            questions.learn(row)
    except _UNREADABLE as error:
        damage = str(error)
    if damage is not None:
        raise StateError(
            f"{path} has rows that cannot be read: {damage}; resume from another checkpoint"
        )


def _looked_at(dataset: Iterable[Row]) -> tuple[list[Row], bool]:
    """Return the first rows, and True if the stream starts with the same row again; else one row, False."""
    first = next(iter(dataset), None)
    if first is None:
        return [], True
    rows = list(islice(iter(dataset), LOOKED_AT))
    same = bool(rows) and content_id(rows[0]) == content_id(first)  # arrays have no plain ==
    return (rows, True) if same else ([first], False)


def _read(path: Path) -> tuple[list[Row], str | None]:
    """Return the rows of a file, or what is wrong with it."""
    if not path.exists():
        return [], None
    try:
        with path.open(encoding="utf-8") as file:
            return [_checked(json.loads(line)) for line in file], None
    except _UNREADABLE as error:
        return [], str(error)


def _checked(row: JSON) -> Row:
    if not isinstance(row, Mapping):
        raise TypeError("a row without columns")
    return row
