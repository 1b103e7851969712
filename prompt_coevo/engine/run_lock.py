"""One process at a time writes into a run's folder."""

from __future__ import annotations

import logging
import os
import platform
import time
from pathlib import Path
from typing import Final, TextIO

from prompt_coevo.errors import SettingsError
from prompt_coevo.markers import PROJECT

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(PROJECT)

# A run that is restarted at once may find the killed one still dying.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.1

_held: dict[Path, TextIO] = {}
"""Kept open until this process ends: closing the file would give up its lock."""


def hold(folder: Path) -> None:
    """Keep other processes out of the folder until this one ends, however it ends.

    The lock belongs to the process, not to processes that it forks, and the same one may hold it twice.
    Where the file system knows no locks, there is none, and one warning. Raises SettingsError if another
    process holds it.
    """
    path = folder.resolve() / "lock"
    if fcntl is None or path in _held:
        return
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"the output directory {folder} cannot be written to: {error.strerror}; "
            "give the trainer another one"
        ) from None
    deadline = time.monotonic() + _PATIENCE_S
    while not _locked(file):
        if time.monotonic() > deadline:
            file.seek(0)
            raise SettingsError(
                f"another run writes into {folder} ({file.read().strip() or 'it does not say which'}); "
                "give the trainer another output directory, or end that run"
            )
        time.sleep(_PAUSE_S)
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}\n")
    file.flush()
    _held[path] = file


def _locked(file: TextIO) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        logger.warning(
            "the file system of %s has no locks (%s), so nothing keeps a second run out of this folder",
            file.name,
            error.strerror,
        )
    return True
