"""Locks on files, by which processes keep each other out of a folder."""

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
    """Lock an open file, unless somebody else holds it: then False. It lasts until the file is closed.

    Where the system knows no locks, or the file system (that is logged), there is none, and True.
    """
    if fcntl is None:
        return True
    # Not lockf: that lock is lost as soon as anybody in this process reads the file and closes it.
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
    """Say in a file that this process has locked who holds it. On a full disk that is logged."""
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
    """Who holds it, as far as its file says."""
    file.seek(0)
    return file.read().decode("utf-8", "replace").strip() or "it does not say which"
