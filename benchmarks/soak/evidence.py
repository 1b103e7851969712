"""Read the files of a repeatedly killed run as an outsider would."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from prompt_coevo.engine.journal import Journal
from prompt_coevo.lines import Lines

Event = dict[str, Any]

RECORD: Final = "record.jsonl"
TEACHER: Final = "teacher.jsonl"
KILLS: Final = "kills.jsonl"
_LAST: Final = 1 << 62


def lines(path: Path) -> Iterator[Event]:
    """Yield the readable lines."""
    yield from (line for line in Lines(path).read() if line is not None)


def asked(folder: Path) -> list[Event]:
    """Return the calls that the teacher saw."""
    return [line for line in lines(folder / TEACHER) if "asked" in line]


def parts(folder: Path) -> list[Path]:
    """Return the output folders of a run whose attempts have one each, oldest first."""
    return sorted(folder.glob("part-*"))


def coevo(folder: Path) -> Path:
    """Return the engine's folder: in TRL's last output folder, or in the checkpoint folder on Ray."""
    nested = folder / "checkpoints"
    output = [folder, *parts(folder)][-1]
    return (nested if nested.exists() else output) / "coevo"


def begun_of(path: Path, size: int) -> int:
    """Return a checksum of a file's first bytes."""
    with path.open("rb") as file:
        return zlib.crc32(file.read(size))


def note_kill(folder: Path, moment: str, how: str) -> None:
    """Record the files' state just after a kill."""
    account = Account(coevo(folder) / "calls.jsonl")
    kept = {}
    for name in ("calls.jsonl", "events.jsonl"):
        path = coevo(folder) / name
        if path.exists():
            size = path.stat().st_size
            kept[name] = [size, begun_of(path, size)]
    seen = len(asked(folder))  # after the ledger, which is written before the teacher sees a call
    fields = {"seen": seen, "asked": len(account.asked), "kept": kept}
    Lines(folder / KILLS).append([{"moment": moment, "how": how, **fields}])


class Account:
    """Read the ledger of a run."""

    def __init__(self, path: Path) -> None:
        records = list(Lines(path).read())
        self.damaged = sum(record is None for record in records)
        self.records = [record for record in records if record is not None]
        self.asked = [record for record in self.records if record["event"] == "asked"]
        self.requests: dict[int, str] = {one["call"]: one["request"] for one in self.asked}
        self.answers = [record for record in self.records if record["event"] == "answered"]
        self.gave_up = [record for record in self.records if record["event"] == "gave_up"]
        self.run_ended = max(
            (one["line"] for one in self.records if one["event"] == "run_ended"), default=_LAST
        )
        """The line of the ledger that ends the run."""

    @property
    def lost(self) -> list[Event]:
        """Return the calls without an outcome."""
        ended = {one["call"] for one in (*self.answers, *self.gave_up)}
        return [one for one in self.asked if one["call"] not in ended]

    def answered(self) -> Counter[str]:
        """Count how often each request was answered."""
        return Counter(str(one["request"]) for one in self.answers)


@dataclass
class Attempt:
    """The record of one start of the run."""

    start: Event
    end: int
    """The last line of the ledger that it may have written."""
    after_start: list[Event] = field(default_factory=list)
    """Its own lines of the record."""

    @property
    def available(self) -> tuple[int, set[int]]:
        """Return the bounds of reusable calls: the line after which all are, and older ones in flight."""
        return self.start["since"], set(self.start["under_way"])


class Evidence:
    """Hold everything in a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.account = Account(coevo(folder) / "calls.jsonl")
        self.kills = list(lines(folder / KILLS))
        self.record = list(lines(folder / RECORD))
        self._journal = Journal(coevo(folder))

    @cached_property
    def events(self) -> list[Event]:
        return list(self._journal.read())

    @property
    def damaged_events(self) -> int:
        return list(self._journal.lines()).count(None)

    @cached_property
    def attempts(self) -> list[Attempt]:
        found: list[Attempt] = []
        for line in self.record:
            if line["event"] == "start":
                if found:
                    found[-1].end = line["line"]
                found.append(Attempt(line, _LAST))
            elif found:
                found[-1].after_start.append(line)
        return found

    @property
    def plans(self) -> Iterator[Event]:
        yield from (line for line in self.record if line["event"] == "plan")

    @cached_property
    def timeline(self) -> tuple[list[Event], list[list[Event]]]:
        """Return the events that count in the end, and for each kill those that had to be repeated."""
        counts: list[Event] = []
        repeated: list[list[Event]] = []
        for place, attempt in enumerate(self.attempts):
            keep = _until(counts, attempt.start["checksum"])
            repeated.append(counts[keep:])
            del counts[keep:]
            number = attempt.start["attempt"]
            # Killed before its first event, an attempt leaves its number to the next one.
            if number not in {later.start["attempt"] for later in self.attempts[place + 1 :]}:
                counts += [one for one in self.events if one.get("attempt") == number]
        return counts, repeated


def _until(events: list[Event], checksum: str | None) -> int:
    """Return how many of the events a checkpoint knows."""
    for place in reversed(range(len(events))):
        if events[place]["event"] == "state_saved" and events[place]["checksum"] == checksum:
            return place + 1
    return 0


def decided(events: list[Event]) -> Counter[str]:
    """Count the decisions, ignoring time and attempt."""
    return Counter(
        repr(sorted((name, _plain(value)) for name, value in event.items() if name not in _CHANGES))
        for event in events
        if event["event"] not in _NO_DECISIONS
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((name, _plain(item)) for name, item in value.items())
    return [_plain(item) for item in value] if isinstance(value, list) else value


_CHANGES: Final = frozenset({"time", "attempt"})
_NO_DECISIONS: Final = frozenset(
    {
        "budget_spent", "budget_warning", "early_sign", "every_question_is_hard", "ledger_opened",
        "lookalikes", "metrics", "preflight", "question", "reflection_probed", "reply", "resumed",
        "run_begins", "state_saved", "summary", "text", "training_ended",
    }
)  # fmt: skip
