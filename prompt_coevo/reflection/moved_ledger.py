"""Find the ledger in which a run's calls are counted, wherever it has resumed.

A ledger names its own place when a run begins. If the run resumes in another folder, the ledger is copied
there, and both files name the new place; in the new one the run begins again. So the last place that a file
names is where counting goes on, also if the file is a copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prompt_coevo import files
from prompt_coevo.lines import JSON, Lines, record
from prompt_coevo.reflection.ledger import MOVED, RUN, checked, is_intact

# Quotes within a text are escaped in JSON, so no text contains these.
_MARKS: Final = tuple(f'"event": "{event}"'.encode() for event in (RUN, MOVED))


@dataclass(frozen=True)
class Mark:
    """The last line of a run in a ledger that names a place."""

    place: Path
    """Where its calls are counted."""

    size: int
    """The size of the file up to the end of this line."""

    moved: bool
    """Whether the run went on there. If not, it began there."""


def last_mark(path: Path, run: str) -> Mark | None:
    """Return the last mark of this run, under whatever identity it was continued.

    Return None without one, or for a file that cannot be read.
    """
    found, size, names = None, 0, {run}
    try:
        with path.open("rb") as file:
            for line in file:
                size += len(line)
                told = record(line) if any(mark in line for mark in _MARKS) else None
                if not (told and is_intact(told)):
                    continue
                its = {str(told[name]) for name in ("run", "continues") if told.get(name)}
                if names & its:
                    names |= its
                    found = Mark(Path(str(told["at"])), size, told["event"] == MOVED)
    except OSError:
        return None
    return found


def current(path: Path, run: str) -> tuple[Path, Path | None]:
    """Follow a ledger to the file in which the run's calls are counted now.

    Also return the place where they were counted later, if that file is gone or has other calls.
    """
    seen: set[Path] = set()
    while (mark := last_mark(path, run)) and path not in seen:
        seen.add(path)
        if is_same(mark.place, path):
            break
        if not continues(mark.place, path, mark.size):
            # Where the run began, the file is a copy, and its original is gone.
            return path, mark.place if mark.moved else None
        path = mark.place
    return path, None


def start_of(run: str, own: Path, others: Iterable[Path]) -> Path | None:
    """Return the first ledger of the run: its folder's, unless it was killed while that was copied."""
    mark = last_mark(own, run)
    copied = mark is not None and mark.moved and is_same(mark.place, own)
    paths = [*others, own] if copied else [own, *others]
    return next((path for path in paths if last_mark(path, run)), None)


def can_become(own: Path, later: Path, run: str) -> bool:
    """Check that nothing is lost if the later ledger replaces the folder's."""
    if not own.exists():
        return True
    size = own.stat().st_size
    if continues(later, own, size):
        return True
    mark = last_mark(own, run)
    return mark is not None and mark.moved and mark.size == size


def continues(later: Path, path: Path, size: int) -> bool:
    """Check that a ledger begins with so many bytes of another one."""
    try:
        with later.open("rb") as file, path.open("rb") as other:
            return file.read(size) == other.read(size)
    except OSError:
        return False


def move(path: Path, new: Path, run: str) -> bool:
    """Continue a ledger in another place; both files name it. Raise OSError if the new one is not written.

    Return False if the old file cannot be written, so that it does not lead to the new one.
    """
    content = path.read_bytes()
    files.replace(Path(os.path.realpath(new)), content)
    _name_place(new, run)
    try:
        files.append(path, new.read_bytes()[len(content) :], sync=True)
    except OSError:
        return False
    return True


def is_same(path: Path, other: Path) -> bool:
    """Check that both are one file, or would be."""
    try:
        if path.exists() and other.exists():
            return path.samefile(other)
    except OSError:  # of a file system that is gone
        pass
    return path.absolute() == other.absolute()


def _name_place(path: Path, run: str) -> None:
    lines = Lines(path)
    last = next((one["line"] for one in lines.backwards() if one and is_intact(one)), 0)
    moved: dict[str, JSON] = {
        "line": last + 1,
        "event": MOVED,
        "run": run,
        "at": str(path.absolute()),
    }
    lines.append([checked(moved)], sync=True)
