"""From what a user names, a run's folder or the beginning of an id, to the run and the candidate."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from prompt_coevo.engine.journal import Journal
from prompt_coevo.lines import record
from prompt_coevo.report.fold import Fold
from prompt_coevo.report.run import CandidateRecord, Run, RunError
from prompt_coevo.visible import in_a_line

_GIVE: Final = "give the output folder of a run, or its subfolder coevo"
_SHOWN: Final = 5
_DEPTH: Final = ("*/events.jsonl", "*/coevo/events.jsonl", "*/*/coevo/events.jsonl")


def read_run(folder: Path) -> Run:
    """Read the journal of a run's folder (`coevo`).

    Lines that cannot be read are counted and passed over. Raises RunError if there is nothing to read,
    or another version of prompt_coevo wrote it.
    """
    fold = Fold(folder)
    for line in journal_of(folder).lines():
        fold.take(line)
    return fold.result()


def journal_of(folder: Path) -> Journal:
    """The journal for reading; nothing is written. Raises RunError."""
    journal = Journal.to_read(folder)
    if not journal.parts:
        raise RunError(f"{folder} holds no journal (events.jsonl); {_GIVE}")
    return journal


class NewLines:
    """Reads a journal while it grows."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal.to_read(folder)
        self._read: dict[int, int] = {}
        """Bytes that were read, by file (its inode, for it may be put aside under another name)."""

    def __iter__(self) -> Iterator[dict[str, Any] | None]:
        """What came since the last time, None for a line that holds no event. A line that is not whole yet
        is left for the next time."""
        for path in self._journal.parts:
            try:
                with path.open("rb") as file:
                    key = os.fstat(file.fileno()).st_ino
                    place = file.seek(self._read.get(key, 0))
                    for line in file:
                        if not line.endswith(b"\n"):
                            break
                        place += len(line)
                        self._read[key] = place
                        if line.strip():
                            yield record(line)
            except OSError:  # put aside this moment: it is there under another name the next time
                continue


def run_folder(given: Path) -> Path:
    """The folder with the journal: `given`, or its `coevo`. Raises RunError, which names runs below it."""
    for folder in (given, given / "coevo"):
        if Journal.to_read(folder).parts:
            return folder
    if not given.exists():
        raise RunError(f"there is no {given}; {_GIVE}")
    if not given.is_dir():
        raise RunError(f"{given} is no folder; {_GIVE}")
    below = [path.parent for pattern in _DEPTH for path in islice(given.glob(pattern), _SHOWN)]
    if below:
        names = ", ".join(str(path) for path in sorted(below)[:_SHOWN])
        raise RunError(f"{given} is no run, but there are runs below it: {names}; give one of them")
    raise RunError(f"{given} holds no journal (events.jsonl); {_GIVE}")


def candidate_of(run: Run, name: str) -> CandidateRecord:
    """The candidate of an id, or of its beginning if no other one begins so. Raises RunError."""
    if name in run.candidates:
        return run.candidates[name]
    found = [one for one in run.candidates if name and one.startswith(name)]
    if len(found) == 1:
        return run.candidates[found[0]]
    asked = in_a_line(name, 80)
    if found:
        raise RunError(
            f"{len(found)} candidates begin with {asked!r}: {_told(found)}; give more of the id"
        )
    if not run.candidates:
        raise RunError(f"there is no candidate {asked!r}: the run in {run.folder} has none yet")
    near = difflib.get_close_matches(name, run.candidates, n=_SHOWN, cutoff=0.4)
    where, others = ("near it", near) if near else ("the latest", list(run.candidates)[-_SHOWN:])
    raise RunError(f"there is no candidate {asked!r} in {run.folder}; {where}: {_told(others)}")


def _told(ids: list[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(in_a_line(one, 40) for one in ids[:_SHOWN]) + more
