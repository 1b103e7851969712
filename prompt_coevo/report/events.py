"""Follow a growing journal: one line of plain text per event."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from prompt_coevo.lines import JSON
from prompt_coevo.report.fields import Fields
from prompt_coevo.report.lineage import check_format
from prompt_coevo.report.reading import NewLines
from prompt_coevo.visible import in_a_line

_SILENT: Final = frozenset({"text", "question"})
_BEGINNINGS: Final = frozenset({"run_begins", "resumed"})
_ENDS: Final = frozenset({"training_ended", "run_refused"})
_LEFT_OUT: Final = frozenset({"time", "event", "attempt", "step"})
_NO_EVENT: Final = "?  unreadable  a line that is no event"
_LONGEST: Final = 160
_LONGEST_FIELD: Final = 60


class EventLines:
    """The events of a run's folder in words; damaged lines are reported as such. Raise RunError for the
    journal of another version of prompt_coevo."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines = NewLines(folder)
        self.ended = False
        """True if the last event says that training is over, or was refused."""

    def latest(self, count: int) -> list[str]:
        """Return the last `count` lines so far."""
        return list(deque(self.new(), maxlen=count))

    def new(self) -> Iterator[str]:
        """Yield the lines of new events."""
        for event in self._lines:
            name = event.get("event") if event is not None else None
            if event is None or not isinstance(name, str):
                yield _NO_EVENT
                continue
            if name in _BEGINNINGS:
                check_format(Fields(event), self._folder)
            if name not in _SILENT:
                self.ended = name in _ENDS
                yield _line(name, event)


def _line(name: str, event: Mapping[str, JSON]) -> str:
    where = f"{in_a_line(event.get('attempt', '?'), 8)}.{in_a_line(event.get('step', '?'), 12)}"
    detail = " ".join(
        f"{key}={_short(value)}" for key, value in event.items() if key not in _LEFT_OUT
    )
    return f"{where}  {in_a_line(name, 40)}  {in_a_line(detail, _LONGEST)}".rstrip()


def _short(value: JSON) -> str:
    if isinstance(value, dict) and isinstance(value.get("id"), str):  # a candidate
        return f"{value['id']} {value.get('text', '')!r}"[:_LONGEST_FIELD]
    if isinstance(value, dict | list):
        if len(value) > 4:
            return f"<{len(value)} values>" if isinstance(value, dict) else f"<{len(value)}>"
        return json.dumps(value)[:_LONGEST_FIELD]
    return str(value)[:_LONGEST_FIELD]
