"""What a user means: a run by its folder, a candidate by its id or the beginning of one."""

from __future__ import annotations

import difflib
from itertools import islice
from pathlib import Path
from typing import Final

from prompt_coevo.engine.journal import Journal
from prompt_coevo.report.reading import RunError
from prompt_coevo.report.run import CandidateRecord, Run
from prompt_coevo.visible import in_a_line

_SHOWN: Final = 5
_DEPTH: Final = ("*/events.jsonl", "*/coevo/events.jsonl", "*/*/coevo/events.jsonl")


def run_folder(given: Path) -> Path:
    """The folder with the journal: `given`, or its `coevo`. Raises RunError, which names runs below it."""
    for folder in (given, given / "coevo"):
        if Journal.to_read(folder).parts:
            return folder
    if not given.exists():
        raise RunError(
            f"there is no {given}; give the output folder of a run, or its subfolder coevo"
        )
    if not given.is_dir():
        raise RunError(
            f"{given} is no folder; give the output folder of a run, or its subfolder coevo"
        )
    below = [path.parent for pattern in _DEPTH for path in islice(given.glob(pattern), _SHOWN)]
    if below:
        names = ", ".join(str(path) for path in sorted(below)[:_SHOWN])
        raise RunError(f"{given} is no run, but there are runs below it: {names}; give one of them")
    raise RunError(
        f"{given} holds no journal (events.jsonl); give the output folder of a run, or its subfolder coevo"
    )


def candidate(run: Run, name: str) -> CandidateRecord:
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
    near = difflib.get_close_matches(name, run.candidates, n=_SHOWN, cutoff=0.4)
    if near:
        raise RunError(f"there is no candidate {asked!r} in {run.folder}; near it: {_told(near)}")
    if run.candidates:
        latest = list(run.candidates)[-_SHOWN:]
        raise RunError(
            f"there is no candidate {asked!r} in {run.folder}; the latest: {_told(latest)}"
        )
    raise RunError(f"there is no candidate {asked!r}: the run in {run.folder} has none yet")


def _told(ids: list[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(in_a_line(one, 40) for one in ids[:_SHOWN]) + more
