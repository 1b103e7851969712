"""Questions with their answers from a file, and a part of them held out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prompt_coevo.doors.questions import QuestionIndex, check_text_only, content_id
from prompt_coevo.errors import DatasetError
from prompt_coevo.placement import Prompt
from prompt_coevo.rng import counter_rng

LINE = "__line__"
"""The key under which a row has its place in the file, counted from 1."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Columns:
    """Which columns of the file are read. `system` is put before prompts that have no system message."""

    prompt: str = "prompt"
    answer: str = "answer"
    system: str | None = None


def read_rows(path: Path, columns: Columns) -> list[Row]:
    """The rows of a .jsonl or .csv file.

    Raises DatasetError for a file that cannot be read, is empty, or lacks a column.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise DatasetError(f"the data file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DatasetError(f"the data file {path} is not UTF-8; save it as that") from None
    read = {".jsonl": _json_lines, ".csv": _csv}.get(path.suffix.lower())
    if read is None:
        raise DatasetError(f"the data file {path} must end in .jsonl or .csv")
    rows = [{**row, LINE: number} for number, row in read(text, path)]
    if not rows:
        raise DatasetError(
            f"the data file {path} has no rows; give it questions with their answers"
        )
    for row in rows:
        _check(row, path, columns)
    return rows


def distinct(rows: Sequence[Row], columns: Columns) -> list[Row]:
    """The first row of every prompt, in the order of the file: a question that stood in the data twice
    could be searched on and held out at once.

    Raises DatasetError for a prompt with two different answers, and names both rows.
    """
    first: dict[str, Row] = {}
    for row in rows:
        kept = first.setdefault(content_id(chat(row, columns)), row)
        if _told(kept[columns.answer]) != _told(row[columns.answer]):
            raise DatasetError(
                f"lines {kept[LINE]} and {row[LINE]} of the data have the same prompt and "
                "different answers; leave one of them out, or give one row with both answers and a "
                "--reward of your own"
            )
    return list(first.values())


def split(rows: Sequence[Row], held_out: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Those to search on and those held out, of `distinct` rows; drawn by the seed alone, each in the order
    of the file.

    Raises DatasetError if fewer than two questions would be left to search on.
    """
    count = round(held_out * len(rows))
    if held_out > 0:
        count = max(1, count)
    if len(rows) - count < 2:
        raise DatasetError(
            f"of {len(rows)} questions {count} would be held out, which leaves fewer than two to search "
            "on; give more questions, or a smaller share to hold out"
        )
    drawn = counter_rng(seed, "evolve/held_out").permutation(len(rows))[:count]
    chosen = set(drawn.tolist())
    train = [row for place, row in enumerate(rows) if place not in chosen]
    return train, [row for place, row in enumerate(rows) if place in chosen]


def indexed(rows: Sequence[Row], columns: Columns) -> QuestionIndex:
    """The rows as questions. Raises DatasetError."""
    return QuestionIndex(
        rows,
        prompt=lambda row: chat(row, columns),
        truth=lambda row: row[columns.answer],
    )


def chat(row: Mapping[str, Any], columns: Columns) -> Prompt:
    """The row's prompt as a chat."""
    prompt = row[columns.prompt]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    if columns.system is not None and messages[0].get("role") != "system":
        messages.insert(0, {"role": "system", "content": columns.system})
    return messages


def _told(answer: Any) -> str:
    """As matchers are given it."""
    return answer if isinstance(answer, str) else json.dumps(answer, default=str)


def _json_lines(text: str, path: Path) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(text.split("\n"), 1):  # no splitlines: JSON may hold U+2028
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise DatasetError(f"line {number} of {path} is not JSON") from None
        if not isinstance(row, dict):
            raise DatasetError(f"line {number} of {path} is no JSON object")
        yield number, row


def _csv(text: str, path: Path) -> Iterator[tuple[int, Row]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(header):
                raise DatasetError(
                    f"line {reader.line_num} of {path} has {len(fields)} fields and the header has "
                    f"{len(header)}; put a text that holds a comma or a line break in double quotes"
                )
            yield reader.line_num, dict(zip(header, fields, strict=True))
    except csv.Error as error:
        raise DatasetError(f"line {reader.line_num} of {path} is no CSV: {error}") from None


def _check(row: Row, path: Path, columns: Columns) -> None:
    for name, option in ((columns.prompt, "--prompt-column"), (columns.answer, "--answer-column")):
        if row.get(name) is None:
            known = ", ".join(str(key) for key in row if key not in (LINE, None))
            raise DatasetError(
                f"line {row[LINE]} of {path} has no column {name!r}; it has: {known}; name the right one "
                f"with {option}"
            )
    prompt = row[columns.prompt]
    if not prompt:
        raise DatasetError(f"line {row[LINE]} of {path} has an empty prompt")
    try:
        check_text_only(prompt, row[LINE])
    except DatasetError:
        raise DatasetError(
            f"line {row[LINE]} of {path} has a prompt that is neither a text nor a chat of texts"
        ) from None
