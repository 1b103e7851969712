"""An append-only file of JSON objects, one per line."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from prompt_coevo import files

JSON: TypeAlias = "Mapping[str, JSON] | Sequence[JSON] | str | int | float | bool | None"
"""Any value that JSON can hold."""

_BLOCK: Final = 1 << 16


class Lines:
    """Append records; read those that a crash, a full disk or a bad byte has left intact.

    Several threads of one process may append.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._whole = False
        """True once the file is known to end with a newline."""

    def append(self, records: Sequence[Mapping[str, object]], *, sync: bool = False) -> None:
        """Write each record as one line; with `sync` they are on the disk on return.

        Values that JSON does not know are written as text. Raise OSError; the last line may then be cut
        short, and the next append begins a new line.
        """
        data = "".join(_line(record) for record in records).encode("ascii")
        with self._lock:
            if not self._whole and not files.ends_in_newline(self.path):
                data = b"\n" + data
            self._whole = False
            files.append(self.path, data, sync=sync)
            self._whole = True

    def read(self) -> Iterator[dict[str, Any] | None]:
        """Yield the records, and None for every damaged or cut line. Raise OSError."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for line in file:
                if line.strip():
                    yield record(line)

    def backwards(self) -> Iterator[dict[str, Any] | None]:
        """Yield as `read` does, from the last line to the first, reading the file only as far as needed."""
        with self.path.open("rb") as file:
            place = file.seek(0, os.SEEK_END)
            pieces: list[bytes] = []
            """The pieces of a line whose start is not read yet, the last one first."""
            while place:
                size = min(_BLOCK, place)
                place -= size
                file.seek(place)
                first, *lines = file.read(size).split(b"\n")
                if lines:
                    lines[-1] = b"".join([lines[-1], *reversed(pieces)])
                    yield from map(record, filter(bytes.strip, reversed(lines)))
                    pieces = []
                pieces.append(first)
            if (line := b"".join(reversed(pieces))).strip():
                yield record(line)


def shown(value: object, show: Callable[[object], str] = str) -> str:
    """Convert any object to text, also one whose `str` or `repr` raises."""
    try:
        return show(value)
    except Exception as error:
        return f"{type(value).__name__} that cannot be shown: {type(error).__name__}"


def _line(record: Mapping[str, object]) -> str:
    try:
        return json.dumps(record, default=str) + "\n"
    except (TypeError, ValueError, RecursionError):  # keys of other types, or a loop
        return json.dumps({str(key): _text(value) for key, value in record.items()}) + "\n"


def _text(value: object) -> JSON:
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return shown(value, repr)


def record(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line, or None if there is none."""
    try:
        found = json.loads(line.decode())  # json would guess the encoding of bytes
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
