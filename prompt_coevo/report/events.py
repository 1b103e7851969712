"""A journal as it grows: one line of plain text for each event."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from prompt_coevo.engine.journal import Journal
from prompt_coevo.report.fields import Fields
from prompt_coevo.report.reading import check_format
from prompt_coevo.visible import in_a_line

_SILENT: Final = frozenset({"text", "question"})
_BEGINNINGS: Final = frozenset({"run_begins", "resumed"})
_LEFT_OUT: Final = frozenset({"time", "event", "attempt", "step"})
_NO_EVENT: Final = "?  unreadable  a line that is no event"
_LONGEST: Final = 160
_LONGEST_FIELD: Final = 60


class EventLines:
    """The events of a run's folder, in words. What is no event is told as such; RunError ends it
    where another version of prompt_coevo wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._journal = Journal.to_read(folder)
        self._seen: dict[int, int] = {}
        """Bytes that were read, by file (its inode, for it may be put aside under another name)."""
        self.ended = False
        """Whether the last event says that training is over."""

    def latest(self, count: int) -> list[str]:
        """The last `count` of what is there."""
        return list(deque(self.new(), maxlen=count))

    def new(self) -> Iterator[str]:
        """What came since; a line that is not whole yet is left for the next time."""
        for path in self._journal.parts:
            try:
                with path.open("rb") as file:
                    key = path.stat().st_ino
                    place = self._seen.get(key, 0)
                    file.seek(place)
                    for line in file:
                        if not line.endswith(b"\n"):
                            break
                        place += len(line)
                        self._seen[key] = place
                        if line.strip() and (told := self._told(line)) is not None:
                            yield told
            except OSError:  # put aside this moment: it is there under another name the next time
                continue

    def _told(self, line: bytes) -> str | None:
        try:
            event = json.loads(line.decode())
            name = event["event"]
        except (ValueError, RecursionError, TypeError, KeyError):
            return _NO_EVENT
        if not isinstance(name, str):
            return _NO_EVENT
        if name in _BEGINNINGS:
            check_format(Fields(event), self._folder)
        if name in _SILENT:
            return None
        self.ended = name == "training_ended"
        where = f"{in_a_line(event.get('attempt', '?'), 8)}.{in_a_line(event.get('step', '?'), 12)}"
        return f"{where}  {in_a_line(name, 40)}  {in_a_line(_detail(event), _LONGEST)}".rstrip()


def _detail(event: dict[str, Any]) -> str:
    return " ".join(
        f"{key}={_short(value)}" for key, value in event.items() if key not in _LEFT_OUT
    )


def _short(value: Any) -> str:
    if isinstance(value, dict):
        if isinstance(value.get("id"), str):  # a candidate
            return f"{value['id']} {value.get('text', '')!r}"[:_LONGEST_FIELD]
        return f"<{len(value)} values>" if len(value) > 4 else json.dumps(value)[:_LONGEST_FIELD]
    if isinstance(value, list):
        return f"<{len(value)}>" if len(value) > 4 else json.dumps(value)[:_LONGEST_FIELD]
    return str(value)[:_LONGEST_FIELD]
