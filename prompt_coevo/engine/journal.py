"""The run's append-only event log, `events.jsonl`. A write error never stops a run."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from prompt_coevo import files
from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON, Lines, shown
from prompt_coevo.markers import PROJECT
from prompt_coevo.redact import known_keys, redact_known

logger = logging.getLogger(PROJECT)

FORMAT: Final = 1
"""The version of the events' format. The events `run_begins` and `resumed` contain it."""

_NAME = "events.jsonl"
_MEGABYTE = 1 << 20
_MOST_ATTEMPTS = 1 << 31
_PUT_ASIDE: Final = re.compile(r"events\.([0-9]+)\.jsonl")


class Journal:
    """Append events, one JSON object per line. Without a folder, drop them.

    All texts are redacted (`redact`, with the `secrets`). Values longer than `max_text_chars` are then cut,
    with a note of how much; field names are not. Lines that cannot be written (full disk) are lost: the
    first failure is logged, and an event `gap` counts the lost lines once writing works again. A file of
    more than `max_file_mb` is renamed to `events.0001.jsonl` and so on. Raise SettingsError if the folder
    cannot be written to at the start.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        secrets: Sequence[str] = (),
        max_file_mb: float = 64.0,
        max_text_chars: int = 20_000,
    ) -> None:
        self.path = folder / _NAME if folder else None
        self._lines = Lines(self.path) if self.path else None
        self._secrets = tuple(secrets)
        self._known: list[str] = []
        """Keys as of the last write: finding them is the slowest part, too slow to do for every text."""
        self._max_bytes = int(max_file_mb * _MEGABYTE)
        self._longest = max_text_chars
        self._lost = 0
        self._writes = threading.RLock()
        """One write at a time: two that rename a full file at once would pick the same number."""
        self.listener: Callable[[Mapping[str, JSON]], None] | None = None
        """Called with every event as written, even if the disk write fails. Must not raise."""
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                files.append(self.path, b"")
            except OSError as error:
                raise SettingsError(
                    f"the output directory {self.path.parent} cannot be written to: "
                    f"{error.strerror}; "
                    "give the trainer another one"
                ) from None

    @classmethod
    def to_read(cls, folder: Path) -> Journal:
        """Open a folder's journal for reading; create and write nothing."""
        journal = cls(None)
        journal.path = folder / _NAME
        return journal

    def write(self, events: Sequence[Mapping[str, JSON]]) -> None:
        """Append events, from any thread."""
        if self._lines is None or not events:
            return
        with self._writes:
            self._write(self._lines, events)

    def _write(self, file: Lines, events: Sequence[Mapping[str, JSON]]) -> None:
        self._known = known_keys(*self._secrets)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = [
            {
                "time": now,
                **{self._plain(name): self._field(value) for name, value in event.items()},
            }
            for event in events
        ]
        if self.listener is not None:
            for line in lines:
                self.listener(line)
        if lost := self._lost:
            lines.insert(0, {"time": now, "event": "gap", "lost": lost})
        try:
            self._roll()
            file.append(lines)
            self._lost -= lost
        except OSError as error:
            if not self._lost:
                logger.warning("the journal %s cannot be written: %s", self.path, error)
            self._lost += len(events)

    def read(self) -> Iterator[dict[str, Any]]:
        """Iterate over all events so far. Skip damaged lines and unreadable files; warn of the latter."""
        return (event for event in self.lines() if event is not None)

    def lines(self) -> Iterator[dict[str, Any] | None]:
        """Yield all events, and None for every line that is not one."""
        for path in self.parts:
            try:
                yield from Lines(path).read()
            except OSError as error:
                logger.warning("the journal %s cannot be read: %s", path, error)

    def last_attempt(self) -> int:
        """Return the number of the attempt that wrote last, -1 if none did. Attempts are sequential."""
        for path in reversed(self.parts):
            try:
                for event in Lines(path).backwards():
                    attempt = event.get("attempt") if event else None
                    if type(attempt) is int and 0 <= attempt < _MOST_ATTEMPTS:
                        return attempt
            except OSError as error:
                logger.warning("the journal %s cannot be read: %s", path, error)
        return -1

    @property
    def parts(self) -> list[Path]:
        """The renamed files, oldest first, and then the current one."""
        if self.path is None:
            return []
        aside = [path for _, path in sorted(self._put_aside(self.path.parent))]
        return [*aside, *([self.path] if self.path.exists() else [])]

    @staticmethod
    def _put_aside(folder: Path) -> list[tuple[int, Path]]:
        """Return the renamed files with their numbers."""
        found = ((_PUT_ASIDE.fullmatch(path.name), path) for path in folder.glob("events.*.jsonl"))
        return [(int(match[1]), path) for match, path in found if match]

    def _roll(self) -> None:
        assert self.path is not None
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        if size > self._max_bytes:
            # Not their count: if one was deleted, that number could be in use.
            number = max((one for one, _ in self._put_aside(self.path.parent)), default=0) + 1
            files.rename(self.path, self.path.with_name(f"events.{number:04d}.jsonl"))

    def _field(self, value: JSON) -> JSON:
        try:
            return self._writable(value)
        except RecursionError:  # a plugin's cyclic or very deeply nested value
            return self._cut(self._plain(value))

    def _writable(self, value: JSON) -> JSON:
        """Convert a value to JSON types. Redact all texts in it, also those of unknown objects."""
        if value is None or isinstance(value, int | float):
            return value
        # Lists and texts first: a step has thousands, and isinstance of Mapping is slow for them.
        if isinstance(value, list | tuple):
            return [self._writable(item) for item in value]
        if not isinstance(value, str) and isinstance(value, Mapping):
            return {self._plain(key): self._writable(item) for key, item in value.items()}
        return self._cut(self._plain(value))

    def _plain(self, value: JSON) -> str:
        """Convert a value to redacted text."""
        return redact_known(value if isinstance(value, str) else shown(value), self._known)

    def _cut(self, text: str) -> str:
        # Cut last: half a key would not be recognised.
        if len(text) <= self._longest:
            return text
        return f"{text[: self._longest]} [{len(text) - self._longest} characters more]"


class Texts:
    """Journal long texts once, as an event `text`, so that other events refer to them by id."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self._written: set[bytes] = set()

    def id(self, text: str) -> str:
        """Return the text's id, a hash, and journal the text the first time."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]
        if digest not in self._written:
            self._written.add(digest)
            self._note("text", id=digest.hex(), text=text)
        return digest.hex()
