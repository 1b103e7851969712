"""An unfinished faiss index, kept on disk so that a stopped build resumes from it."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from types import ModuleType

from prompt_coevo.retrieval.dense.faiss_package import FaissIndex

# A graph of millions of vectors takes hours to build, and seconds or minutes to write.
_PAUSE_S, _PAUSE_PER_WRITE = 300.0, 20.0


class Partial:
    """The unfinished index of one build, identified by `key`: what it is made of."""

    def __init__(self, faiss: ModuleType, folder: Path, key: str) -> None:
        self._faiss = faiss
        self._folder = folder
        self._path = folder / f"partial-{hashlib.sha256(key.encode()).hexdigest()[:32]}.faiss"
        self._next = time.monotonic() + _PAUSE_S

    def read(self) -> FaissIndex | None:
        """Return what an earlier build left, or None if nothing readable is there."""
        if not self._path.is_file():
            return None
        try:
            index: FaissIndex = self._faiss.read_index(str(self._path))
        except RuntimeError:
            return None
        return index

    def keep(self, index: FaissIndex) -> None:
        """Replace the index kept before with this one."""
        for other in self._folder.glob("partial-*"):
            if other != self._path:
                other.unlink()
        began = time.monotonic()
        save(self._faiss, index, self._path)
        ended = time.monotonic()
        self._next = ended + max(_PAUSE_S, _PAUSE_PER_WRITE * (ended - began))

    def keep_now_and_then(self, index: FaissIndex) -> None:
        """Keep the index, but so seldom that writing takes at most a twentieth of the time."""
        if time.monotonic() >= self._next:
            self.keep(index)

    def remove(self) -> None:
        """Remove the unfinished index once the index is finished."""
        for path in self._folder.glob("partial-*"):
            path.unlink()


def save(faiss: ModuleType, index: FaissIndex, path: Path) -> None:
    """Write the index completely or not at all. Raises OSError."""
    draft = path.with_suffix(".tmp")
    try:
        faiss.write_index(index, str(draft))
    except RuntimeError as error:
        raise OSError(str(error).rpartition(": ")[2]) from error
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    draft.replace(path)
