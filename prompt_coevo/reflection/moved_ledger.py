"""Find the ledger in which a run's calls are counted, wherever it has resumed.

A ledger names its own place when a run begins. If the run resumes in another folder, the ledger is copied
there, and both files name the new place. So the last place that a file names is where counting continues,
also if the file is a copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prompt_coevo import files
from prompt_coevo.lines import record
from prompt_coevo.reflection.ledger import Ledger


def ledger_of(run: str, paths: Iterable[Path]) -> Path | None:
    """Return the first ledger file that has calls of this run."""
    return next((path for path in paths if Ledger.spent_in(path, run) is not None), None)


def current(path: Path) -> tuple[Path, Path | None]:
    """Follow a ledger to the file in which its run's calls are counted now.

    Also return the place that this file names, if counting continued there and no such file can be read.
    Raise OSError.
    """
    seen: set[Path] = set()
    while path not in seen:
        seen.add(path)
        places = Ledger.places(path)
        if not places or is_same(places[-1], path):
            break
        if not continues(places[-1], path):
            was_here = any(is_same(place, path) for place in places)
            return path, places[
                -1
            ] if was_here else None  # else it is a copy, whose original is gone
        path = places[-1]
    return path, None


def continues(later: Path, path: Path) -> bool:
    """Check that a ledger begins with all calls of another one. Raise OSError if that cannot be read.

    Outcomes at the end of the other one do not count: they may have come in after it was copied.
    """
    lines = path.read_bytes().splitlines(keepends=True)
    while lines and (record(lines[-1]) or {}).get("event") in ("answered", "gave_up", None):
        lines.pop()
    content = b"".join(lines)
    try:
        with later.open("rb") as file:
            return file.read(len(content)) == content
    except OSError:
        return False


def move(path: Path, new: Path) -> bool:
    """Continue a ledger in another place; both files name it. Raise OSError if the new one is not written.

    Return False if the old file cannot be written, so that it does not lead to the new one.
    """
    content = path.read_bytes()
    files.replace(new, content)
    Ledger.name_place(new, new)
    try:
        files.append(path, new.read_bytes()[len(content) :], sync=True)
    except OSError:
        return False
    return True


def is_same(path: Path, other: Path) -> bool:
    """Check that both are one file, or would be."""
    if path.exists() and other.exists():
        return path.samefile(other)
    return path.absolute() == other.absolute()
