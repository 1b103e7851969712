"""File locks that keep a second process out of a folder."""

from __future__ import annotations

import logging
import os
import platform
from io import FileIO

from prompt_coevo.markers import PROJECT

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(PROJECT)


def locked(file: FileIO) -> bool:
    """Lock an open file until it is closed. Return False if another process holds the lock.

    Return True without a lock if the system has none, or the file system has none (logged).
    """
    if fcntl is None:
        return True
    # Not lockf: its lock is lost as soon as this process opens the file elsewhere and closes it.
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        logger.warning(
            "the file system of %s has no locks (%s), so nothing keeps a second process out of this folder",
            file.name,
            error.strerror,
        )
    return True


def sign(file: FileIO) -> None:
    """Write the holder (process id, machine) into a lock file. Log a write error, such as a full disk."""
    try:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}\n".encode())
    except OSError as error:
        logger.warning(
            "%s cannot be written (%s): it locks the folder, but cannot say for whom",
            file.name,
            error.strerror,
        )


def holder(file: FileIO) -> str:
    """Return the holder that a lock file names."""
    file.seek(0)
    return file.read().decode("utf-8", "replace").strip() or "it does not say which"
