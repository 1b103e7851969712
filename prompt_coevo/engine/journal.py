"""The run's append-only event log, `events.jsonl`."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prompt_coevo.errors import SettingsError
from prompt_coevo.markers import PROJECT

logger = logging.getLogger(PROJECT)


class Journal:
    """Appends one JSON object per line. Without a folder it forgets everything.

    A line that cannot be written (a full disk, say) is lost, which is reported the first time and does
    not stop the run. Raises SettingsError if the folder cannot be written to at the start.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = folder / "events.jsonl" if folder else None
        self._failed = False
        self._lock = threading.Lock()
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _end_last_line(self.path)
            except OSError as error:
                raise SettingsError(
                    f"the output directory {self.path.parent} cannot be written to: "
                    f"{error.strerror}; "
                    "give the trainer another one"
                ) from None

    def write(self, events: Sequence[dict[str, Any]], *, sync: bool = False) -> None:
        """Append events, from any thread; with `sync` they are on the disk when this returns."""
        if self.path is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = [json.dumps({"time": now, **event}, default=str) + "\n" for event in events]
        try:
            with self._lock, self.path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            if not self._failed:
                logger.warning("the journal %s cannot be written: %s", self.path, error)
            self._failed = True

    def read(self) -> Iterator[dict[str, Any]]:
        """All events so far; a line cut short by a crash is passed over.

        Raises UnicodeDecodeError for bytes that are no UTF-8.
        """
        if self.path is None:
            return
        with self.path.open(encoding="utf-8") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict):
                    yield event


def _end_last_line(path: Path) -> None:
    """A crash may have cut the last line short; the next one must not be glued to it."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
