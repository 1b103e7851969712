"""Find the run and the candidate that a user names by a folder and the beginning of an id."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from prompt_coevo.engine.journal import Journal
from prompt_coevo.lines import JSON, record
from prompt_coevo.report.fold import Fold
from prompt_coevo.report.run import CandidateRecord, Run, RunError
from prompt_coevo.visible import in_a_line

_GIVE: Final = "give the output folder of a run, or its subfolder coevo"
_SHOWN: Final = 5
_DEPTH: Final = ("*/events.jsonl", "*/coevo/events.jsonl", "*/*/coevo/events.jsonl")


def read_run(folder: Path) -> Run:
    """Read the journal of a run's folder (`coevo`).

    Count and skip unreadable lines. Raise RunError if there is nothing to read, or if another version of
    prompt_coevo wrote it.
    """
    fold = Fold(folder)
    for line in journal_of(folder).lines():
        fold.take(line)
    return fold.result()


def journal_of(folder: Path) -> Journal:
    """Open the journal for reading; write nothing. Raise RunError if there is none."""
    journal = Journal.to_read(folder)
    if not journal.parts:
        raise RunError(f"{folder} holds no journal (events.jsonl); {_GIVE}")
    return journal


class NewLines:
    """Iterates over a journal's new lines while it grows."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal.to_read(folder)
        self._read: dict[int, int] = {}
        """Bytes read so far by inode: the journal renames full files."""

    def __iter__(self) -> Iterator[Mapping[str, JSON] | None]:
        """Yield the events since the last iteration, None for an unreadable line. Leave an incomplete line
        for the next time."""
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
            except OSError:  # just renamed: the next iteration finds it under its new name
                continue


def run_folder(given: Path) -> Path:
    """Return the folder with the journal: `given` or its `coevo`. Raise RunError that names runs below."""
    for folder in (given, given / "coevo"):
        if Journal.to_read(folder).parts:
            return folder
    if not given.exists():
        raise RunError(f"there is no {given}; {_GIVE}")
    if not given.is_dir():
        raise RunError(f"{given} is not a folder; {_GIVE}")
    below = [path.parent for pattern in _DEPTH for path in islice(given.glob(pattern), _SHOWN)]
    if below:
        names = ", ".join(str(path) for path in sorted(below)[:_SHOWN])
        raise RunError(
            f"{given} is not a run, but there are runs below it: {names}; give one of them"
        )
    raise RunError(f"{given} holds no journal (events.jsonl); {_GIVE}")


def candidate_of(run: Run, name: str) -> CandidateRecord:
    """Return the candidate with this id or unique beginning of an id. Raise RunError."""
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
