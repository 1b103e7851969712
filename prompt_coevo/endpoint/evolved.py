"""What comes of an evolution, and its files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prompt_coevo import files
from prompt_coevo.doors.trackers.tables import LINEAGE
from prompt_coevo.endpoint.scores import Score
from prompt_coevo.errors import CoevoError
from prompt_coevo.redact import redact
from prompt_coevo.types import Candidate
from prompt_coevo.visible import visible

RESULT: Final = "result.json"
CANDIDATES: Final = "candidates.csv"


class ResultError(CoevoError, RuntimeError):
    """The result's files cannot be written."""


@dataclass(frozen=True)
class Evolved:
    """What came of it. `best` has the best candidates first; it is empty where nothing is better than
    none. Scores are None without held-out questions, or if the budget did not pay for them."""

    best: tuple[Candidate, ...]
    first: Score
    before: Score | None
    after: Score | None
    change: Score | None
    stopped: str
    cost: Mapping[str, float]
    warnings: tuple[str, ...] = ()
    unfinished: bool = False
    """Whether a budget ended the search: with a larger one the same folder can be gone on with."""

    def to_json(self) -> dict[str, Any]:
        scores = {name: getattr(self, name) for name in ("first", "before", "after", "change")}
        return {
            "best": [{"id": one.id, "kind": one.kind, "text": one.text} for one in self.best],
            **{name: one.to_json() if one else None for name, one in scores.items()},
            "stopped": self.stopped,
            "cost": dict(self.cost),
            "warnings": list(self.warnings),
            "unfinished": self.unfinished,
        }


def finished(result: Path) -> bool:
    """Whether there is a result that no larger budget could add to."""
    try:
        return not json.loads(result.read_text("utf-8"))["unfinished"]
    except FileNotFoundError:
        return False
    except (OSError, ValueError, LookupError, TypeError):  # somebody else's
        return True


def write(out: Path, rows: Iterable[object], report: Mapping[str, Any]) -> None:
    """The table of candidates, then the result. Raises ResultError."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(LINEAGE)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in LINEAGE])
    text = json.dumps(report, indent=2, ensure_ascii=False)
    try:
        files.replace(out / CANDIDATES, table.getvalue().encode("utf-8", "replace"))
        files.replace(out / RESULT, (text + "\n").encode("utf-8", "replace"))
    except OSError as error:
        raise ResultError(
            f"the result cannot be written to {out}: {error.strerror}; mend that, and the same command "
            "goes on: what was paid for is not asked again"
        ) from None


def _cell(value: object) -> str:
    """A spreadsheet must not take a text for a formula."""
    text = visible(str(value))
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


def redacted(value: Any, keys: Sequence[str]) -> Any:
    """Without keys, at whatever depth they stand."""
    if isinstance(value, str):
        return redact(value, *keys)
    if isinstance(value, Mapping):
        return {name: redacted(one, keys) for name, one in value.items()}
    return [redacted(one, keys) for one in value] if isinstance(value, list) else value
