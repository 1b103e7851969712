"""How many threads a search may use."""

from __future__ import annotations

import os

from prompt_coevo.errors import SettingsError

_VARIABLE = "OMP_NUM_THREADS"


def cores() -> int:
    """What OMP_NUM_THREADS says, which torch and faiss heed, too; else the cores given to this process.

    Raises SettingsError if it is no number.
    """
    wanted = os.environ.get(_VARIABLE, "").partition(",")[0].strip()  # a list is for nested threads
    if not wanted:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if not wanted.isdecimal() or int(wanted) == 0:
        raise SettingsError(f"{_VARIABLE} must be a number above 0, but is {wanted!r}")
    return int(wanted)
