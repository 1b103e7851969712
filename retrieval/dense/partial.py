"""An index of faiss that is not whole yet, kept on the disk so that a stopped build goes on from there."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

# A graph of millions of vectors takes hours, and is written in seconds or minutes.
_PAUSE_S, _PAUSE_PER_WRITE = 300.0, 20.0


class Partial:
    """The unfinished index of one build, known by what it is made of: `key`."""

    def __init__(self, faiss: Any, folder: Path, key: str) -> None:
        self._faiss = faiss
        self._folder = folder
        self._path = folder / f"partial-{hashlib.sha256(key.encode()).hexdigest()[:32]}.faiss"
        self._next = time.monotonic() + _PAUSE_S

    def read(self) -> Any | None:
        """What an earlier build has left, None if that is nothing that can be read."""
        if not self._path.is_file():
            return None
        try:
            return self._faiss.read_index(str(self._path))
        except RuntimeError:
            return None

    def keep(self, index: Any) -> None:
        """Write it in place of what was kept before."""
        for other in self._folder.glob("partial-*"):
            if other != self._path:
                other.unlink()
        began = time.monotonic()
        save(self._faiss, index, self._path)
        ended = time.monotonic()
        self._next = ended + max(_PAUSE_S, _PAUSE_PER_WRITE * (ended - began))

    def keep_now_and_then(self, index: Any) -> None:
        """So seldom that writing takes a twentieth of the time at most."""
        if time.monotonic() >= self._next:
            self.keep(index)

    def remove(self) -> None:
        """The index is finished."""
        for path in self._folder.glob("partial-*"):
            path.unlink()


def save(faiss: Any, index: Any, path: Path) -> None:
    """As a whole or not at all. Raises OSError."""
    draft = path.with_suffix(".tmp")
    try:
        faiss.write_index(index, str(draft))
    except RuntimeError as error:
        raise OSError(str(error).rpartition(": ")[2]) from error
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    draft.replace(path)
