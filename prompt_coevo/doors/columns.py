"""Columns of the host's dataset, by the names that the settings give them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from prompt_coevo.errors import DatasetError


def require_column(column: str, columns: Iterable[str], remark: str = "") -> None:
    """Raise DatasetError unless the dataset has this column."""
    known = list(columns)
    if column not in known:
        raise missing_column(column, known, remark)


def missing_column(column: str, columns: Iterable[str], remark: str = "") -> DatasetError:
    """The error about a column that is not there; `remark` says who asked for it."""
    known = list(map(str, columns))
    near = difflib.get_close_matches(column, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return DatasetError(
        f"the training dataset has no column {column!r}{remark}; it has: {', '.join(known)}{hint}"
    )


def truth_column(setting: str | None, columns: Iterable[str], usual: Sequence[str]) -> str | None:
    """The column with the right answer: the setting's, or with "auto" the first `usual` one there is.

    None if the setting is. Raises DatasetError.
    """
    known = list(columns)
    if setting is None:
        return None
    if setting != "auto":
        require_column(setting, known, " (ground_truth_column)")
        return setting
    for column in usual:
        if column in known:
            return column
    raise DatasetError(
        f"the training dataset has none of the columns {', '.join(usual)}; set ground_truth_column "
        "to the one with the right answer, or to null if there is none"
    )
