"""Make sure that only one process writes into a run's folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.file_lock import holder, locked, sign

# After an immediate restart, the killed process may not have exited yet.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.1

_held: dict[tuple[int, int], FileIO] = {}
"""The lock files of this process by device and inode, kept open until it exits."""
_training: WeakValueDictionary[Path, object] = WeakValueDictionary()
"""The latest run of this process that began to train, by folder."""


def hold(folder: Path, name: str = "lock") -> None:
    """Lock the folder, by the file of this name in it, for this process until it exits, however it exits.

    The lock belongs to the process, not to its forked children; the process may take it twice. If the file
    system has no locks, log a warning and go without. Raise SettingsError if another process holds it.
    """
    try:
        file = FileIO(folder.resolve() / name, "a+")
    except OSError as error:
        raise SettingsError(
            f"the output directory {folder} cannot be written to: {error.strerror}; "
            "give the trainer another one"
        ) from None
    identity = os.fstat(file.fileno())
    # Not its path, which may lead to another file by now.
    place = (identity.st_dev, identity.st_ino)
    if place in _held:
        file.close()
        return
    if not _free_in_time(file):
        other = holder(file)
        file.close()
        raise SettingsError(
            f"another run writes into {folder} ({other}); "
            "give the trainer another output directory, or end that run"
        )
    sign(file)
    _held[place] = file


@contextmanager
def kept(folder: Path) -> Iterator[str | None]:
    """Keep other processes out of a folder for a while. Yield the name of one that is in it, or None."""
    try:
        file = _opened(folder / "lock")
    except OSError:
        yield None
        return
    with file:
        identity = os.fstat(file.fileno())
        ours = (identity.st_dev, identity.st_ino) in _held
        yield None if ours or _free_in_time(file) else holder(file)


def _opened(path: Path) -> FileIO:
    try:  # network file systems lock only what is open for writing
        return FileIO(path, "r+")
    except OSError:
        return FileIO(path)


def _free_in_time(file: FileIO) -> bool:
    """Lock the file. Return False if another process keeps it for longer than a killed one would."""
    deadline = time.monotonic() + _PATIENCE_S
    while not locked(file):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def begin_in(folder: Path, run: object) -> None:
    """Note that this run now trains in the folder, replacing an earlier run of the process."""
    _training[folder.resolve()] = run


def check_alone(folder: Path, run: object) -> None:
    """Raise HostError if another run of this process has begun in the folder after this one."""
    if _training.get(folder.resolve(), run) is not run:
        raise HostError(
            f"another trainer of this process has begun to train in {folder} since, and two runs cannot "
            "share a folder; give each trainer an output directory of its own"
        )


def _leave_to_parent() -> None:
    """Close the locks in a forked child. It shares them, so they would last until both have exited."""
    for file in _held.values():
        file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave_to_parent)
