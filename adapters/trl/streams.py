"""A dataset that comes as a stream: a first look at it, and its rows in checkpoints."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from prompt_coevo.adapters.common.checkpoint import writing
from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.adapters.trl.ranks import ALONE, Ranks
from prompt_coevo.engine.identity import Dataset
from prompt_coevo.errors import DatasetError, StateError
from prompt_coevo.markers import PROJECT
from prompt_coevo.placement import Prompt
from prompt_coevo.settings import Settings

logger = logging.getLogger(PROJECT)

LOOKED_AT: Final = 1_000
"""Rows of a first look: what `datasets` reads at once, and of every kind of prompt there are some."""
ROWS_FILE: Final = "coevo_rows.jsonl"
_UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, DatasetError, RecursionError)


def is_stream(dataset: Any) -> bool:
    """Whether rows come one after the other and cannot be looked up, as those of an IterableDataset."""
    # By name: torch's gives its heirs a `__getitem__` that raises, and is not imported here.
    return any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__)


def index_stream(
    dataset: Any,
    settings: Settings,
    ranks: Ranks = ALONE,
    read_chat: Callable[[Prompt], Prompt] = lambda prompt: prompt,
) -> QuestionIndex:
    """The questions of a stream's first 1 000 rows; others are learned when training meets them.

    Rank 0 looks, and all ranks know the same rows. A stream that begins otherwise when it is begun again
    gives its first row alone: what was read of it may be lost for training, and a resumed run cannot be
    told from one on another stream. Both are said in the log. Raises DatasetError, as `index_columns`
    does.
    """
    rows, same = ranks.broadcast(_looked_at(dataset) if ranks.is_main else None)
    if not rows:
        raise DatasetError("the training dataset is empty; give the trainer at least one question")
    questions = index_columns(rows, settings, read_chat=read_chat, streamed=True)
    if same:
        logger.info(
            "the training dataset is a stream: %d questions of its first %d rows are known, and what a "
            "run needs from the start (the longest prompts, a shared system message, what a resumed run "
            "must be given again) is theirs; others are learned when training meets them",
            len(questions),
            len(rows),
        )
    else:
        questions.identity = Dataset(0, "a stream that begins otherwise each time")
        logger.warning(
            "the training dataset is a stream that begins otherwise when it is begun again: up to %d "
            "rows that were read to look at it may not come in training, and a resumed run cannot see "
            "whether it goes on with the same dataset",
            LOOKED_AT + 2,  # the first one is looked at by the adapters, and again here
        )
    return questions


def save_late_rows(questions: QuestionIndex, folder: Path) -> None:
    """Write the rows that were learned into a checkpoint's folder, or remove those of an earlier run that
    are there, if none was. One that cannot be written as JSON is left out, with a line in the log: a
    resumed run learns it when it comes again. Raises StateError."""
    path, left_out = folder / ROWS_FILE, 0
    with writing("the stream's rows", path):
        if not questions.late:
            path.unlink(missing_ok=True)
            return
        with path.open("w", encoding="utf-8") as file:
            for row in questions.late.values():
                try:
                    line = json.dumps(row)
                except (TypeError, ValueError):
                    left_out += 1
                    continue
                file.write(f"{line}\n")
    if left_out:
        logger.warning(
            "%d rows of the training dataset cannot be written as JSON; a run that is resumed from %s "
            "does not know them until they come again",
            left_out,
            folder,
        )


def load_late_rows(questions: QuestionIndex, folder: Path, ranks: Ranks = ALONE) -> None:
    """Learn the rows of a checkpoint's folder; there are none if no row was late.

    Rank 0, which has written them, reads them: another machine may have no such folder. Raises StateError
    for a file that is damaged, on every rank.
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


def _looked_at(dataset: Any) -> tuple[list[Row], bool]:
    """The first rows, and whether the stream begins with them again; if not, its first row alone."""
    first = next(iter(dataset), None)
    if first is None:
        return [], True
    rows = list(islice(iter(dataset), LOOKED_AT))
    same = bool(rows) and rows[0] == first
    return (rows, True) if same else ([first], False)


def _read(path: Path) -> tuple[list[Row], str | None]:
    """Rows of a file, and what is wrong with it."""
    if not path.exists():
        return [], None
    try:
        with path.open(encoding="utf-8") as file:
            return [_checked(json.loads(line)) for line in file], None
    except _UNREADABLE as error:
        return [], str(error)


def _checked(row: Any) -> Row:
    if not isinstance(row, Mapping):
        raise TypeError("a row without columns")
    return row
