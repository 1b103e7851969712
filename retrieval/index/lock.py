"""A lock on an index's folder: two builds would write into each other's files."""

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

# If a killed build is restarted at once, the killed process may still be dying.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.1


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other builds out of the existing folder. Raises IndexFileError while another one runs.

    A killed process holds no lock. Raises OSError if the folder cannot be written to.
    """
    path = folder / layout.LOCK
    file = _taken(path)
    try:
        yield
    finally:
        # Unlink before releasing: a waiting process then sees that its file is gone, and makes another.
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
    """Return True unless the previous holder removed the file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
