"""One process at a time writes into a run's folder."""

from __future__ import annotations

import os
import time
from io import FileIO
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.file_lock import holder, locked, sign

# A run that is restarted at once may find the killed one still dying.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.1

_held: dict[tuple[int, int], FileIO] = {}
"""The lock files of this process, by device and inode, kept open until it ends."""
_training: WeakValueDictionary[Path, object] = WeakValueDictionary()
"""The latest run of this process that began to train, by its folder."""


def hold(folder: Path) -> None:
    """Keep other processes out of the folder until this one ends, however it ends.

    The lock belongs to the process, not to processes that it forks, and the same one may hold it twice.
    Where the file system knows no locks, there is none, and one warning. Raises SettingsError if another
    process holds it.
    """
    try:
        file = FileIO(folder.resolve() / "lock", "a+")
    except OSError as error:
        raise SettingsError(
            f"the output directory {folder} cannot be written to: {error.strerror}; "
            "give the trainer another one"
        ) from None
    identity = os.fstat(file.fileno())
    # Not by its path, where another file may stand by now.
    place = (identity.st_dev, identity.st_ino)
    if place in _held:
        file.close()
        return
    deadline = time.monotonic() + _PATIENCE_S
    while not locked(file):
        if time.monotonic() > deadline:
            other = holder(file)
            file.close()
            raise SettingsError(
                f"another run writes into {folder} ({other}); "
                "give the trainer another output directory, or end that run"
            )
        time.sleep(_PAUSE_S)
    sign(file)
    _held[place] = file


def begin_in(folder: Path, run: object) -> None:
    """Note that a run of this process trains in the folder from now on, in place of an earlier one."""
    _training[folder.resolve()] = run


def check_alone(folder: Path, run: object) -> None:
    """Raise HostError if another run of this process has begun in the folder since this one did."""
    if _training.get(folder.resolve(), run) is not run:
        raise HostError(
            f"another trainer of this process has begun to train in {folder} since, and two runs cannot "
            "share a folder; give each trainer an output directory of its own"
        )


def _leave_to_parent() -> None:
    """In a forked child: a lock of this kind is shared with it, and would be held until both have ended."""
    for file in _held.values():
        file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave_to_parent)
