"""One process at a time builds in a folder: two would write into each other's files."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Final

from prompt_coevo.file_lock import holder, locked, sign
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.index import layout

# A build that is begun again at once may find the killed one still dying.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.1


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other builds out of the folder, which is there. Raises IndexFileError while there is one.

    A killed process holds nothing. Raises OSError if the folder cannot be written to.
    """
    path = folder / layout.LOCK
    file = _taken(path)
    try:
        yield
    finally:
        # Before it is let go: who waits for it sees that, and makes another.
        path.unlink(missing_ok=True)
        file.close()


def _taken(path: Path) -> FileIO:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        file = FileIO(path, "a+")
        if locked(file) and _is_still_there(file, path):
            sign(file)
            return file
        other = holder(file)
        file.close()
        if time.monotonic() > deadline:
            raise IndexFileError(
                f"another build is under way in {path.parent} ({other}); "
                "wait for its end, or choose another folder"
            )
        time.sleep(_PAUSE_S)


def _is_still_there(file: FileIO, path: Path) -> bool:
    """Whether who held the file before has not removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
