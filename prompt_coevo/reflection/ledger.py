"""A file of all calls to the reflection model and their outcomes, which survives a killed process."""

from __future__ import annotations

import json
import secrets
import threading
import zlib
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from prompt_coevo.errors import StateError
from prompt_coevo.lines import JSON, Lines
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.reflection.spending import NOTHING, plausible, plausible_number

CALLS: Final = "calls.jsonl"
"""The name of a run's ledger in its folder."""
RUN: Final = "run"
"""The event of a line that says whose calls follow."""
MOVED: Final = "moved"
"""The event of a line that says where calls are counted from now on (`moved_ledger.py`)."""
SCHEMA: Final = 1
_ROUNDING: Final = 1e-6
_MANY: Final = 1 << 53


@dataclass(frozen=True)
class Call:
    """One call to the reflection model; a retry is a separate call.

    `number` counts the calls of the file. `request` is the id of the request. `place` orders calls with
    equal requests: the batch, and the position in it. `most` is the highest possible cost.
    """

    number: int
    request: str
    place: tuple[int, int]
    most: Usage = Usage()


@dataclass
class _Account:
    """The calls of a run over all its attempts."""

    settled: dict[str, float] = field(default_factory=lambda: dict(NOTHING))
    """The cost of calls with an outcome."""
    open: dict[int, Call] = field(default_factory=dict)
    """Calls without an outcome, by number."""
    answers: list[tuple[int, Call, Reply]] = field(default_factory=list)
    """Replies with their positions in the file."""
    ended: bool = False


class Ledger:
    """An append-only file of calls; each is on the disk before it is sent. Without a path, in memory.

    `open` says which run the calls belong to. A call without an outcome counts with its highest possible
    cost, whether it is under way, or its outcome was lost to a kill or a damaged line. Every line has a
    checksum. Several threads of one process may write.
    """

    def __init__(self, path: Path | None) -> None:
        self._lines = Lines(path) if path else None
        self._lock = threading.Lock()
        self._position = 0
        self._last_call = 0
        self._own = 1
        """The first call of this attempt."""
        self.is_open = False
        """True after `open`."""
        self._has_ended = False
        self.after_another_run = False
        """True if a new run found the calls of a different run in the file."""
        self.was_whole = False
        """True if `open` found the run that is continued, up to its checkpoint at least."""
        self.damaged = 0
        """Lines that `open` could not read."""
        self._place: JSON = None
        """The path of the file when its last run began; None before the first."""
        self._account = _Account()
        self._asked_by: dict[int, _Account] = {}
        """The accounts of open calls by number: a late reply counts for the account that asked."""
        self._replies: defaultdict[str, deque[tuple[int, Reply]]] = defaultdict(deque)

    def open(
        self,
        run: str,
        *,
        continues: str | None = None,
        since: int = 0,
        under_way: Collection[int] = (),
    ) -> None:
        """Resume the account of this run if the file has it, or begin a new one.

        `continues` is the identity of the run whose checkpoint is resumed, usually `run` itself. Without a
        checkpoint, the account of a run with the same identity is resumed if it has not ended: that run was
        killed. Replies after the position `since`, and replies to the calls `under_way`, can be used again.
        Raise StateError for a file of another schema, or one that cannot be read or written.
        """
        with self._lock:
            accounts, latest = self._read()
            self.after_another_run = continues is None and latest not in (None, run)
            known = self._continued(accounts, run if continues is None else continues)
            # Without a checkpoint, only a killed run is continued, and only one that the file names.
            if continues is None and known is not None and (known.ended or run not in accounts):
                known = None
            self._account = known or _Account()
            self.was_whole = known is not None and self._position >= since
            if self._position < since:
                # A new file: continue the checkpoint's count, so that later checkpoints stay comparable.
                self._position = since
                self._last_call = max(self._last_call, since)
            self._own = self._last_call + 1
            self._sort_replies(since, under_way)
            self.is_open = True
            if known is None or latest != run or known.ended or not self._is_here:
                self._begin(run, run if continues is None and known else continues)

    @classmethod
    def spent_in(cls, path: Path, run: str) -> dict[str, float] | None:
        """Return the totals of a run in a ledger file, lost calls at their highest cost. Write nothing.

        Return None for a file without this run, or one that cannot be read.
        """
        ledger = cls(path)
        try:
            account = ledger._continued(ledger._read()[0], run)
        except StateError:
            return None
        if account is None:
            return None
        ledger._account, ledger._own = account, ledger._last_call + 1
        return ledger.totals

    def go_on(self, run: str, continues: str) -> None:
        """Continue the account after the run's end, or under a new identity. Raise StateError."""
        with self._lock:
            self._begin(run, continues)

    def close(self) -> None:
        """Mark the run as ended, so that the next run in the folder begins a new account.

        Only the first call writes: later, another run may use the file.
        """
        with self._lock, suppress(OSError):  # unmarked, an equal next run continues this account
            if self.is_open and not self._has_ended:
                self._has_ended = True
                self._write("run_ended")

    @property
    def position(self) -> int:
        """The current position in the file, to be saved and passed to `open` as `since`."""
        with self._lock:
            return self._position

    @property
    def totals(self) -> dict[str, float]:
        """The totals of all calls: lost calls at their highest cost, calls under way without any cost."""
        with self._lock:
            return self._sums(self._lost)

    @property
    def most_totals(self) -> dict[str, float]:
        """The totals with calls under way at their highest cost, too."""
        with self._lock:
            return self._sums(self._account.open.values())

    @property
    def lost(self) -> int:
        """The number of calls of earlier attempts whose outcome is lost."""
        with self._lock:
            return len(self._lost)

    def asked(self, request: str, place: tuple[int, int], most: Usage) -> Call:
        """Record a call before it is sent. Raise OSError; the call must not be sent then."""
        with self._lock:
            self._last_call += 1
            call = Call(self._last_call, request, place, most)
            cost = asdict(most)
            self._write("asked", call=call.number, request=request, place=place, most=cost)
            self._account.open[call.number] = call
            return call

    def answered(self, call: Call, reply: Reply, seconds: float) -> None:
        """Record the reply to a call, or its error. Raise OSError; the call then stays open."""
        with self._lock:
            self._write(
                "answered" if reply.error is None else "gave_up",
                call=call.number,
                request=call.request,
                place=call.place,
                seconds=seconds,
                reply=asdict(reply),
            )
            _settle(self._account, call.number, reply, seconds)

    def carry_over(self, totals: Mapping[str, float]) -> None:
        """Add the part of a checkpoint's totals that this file lacks, as after a change of the folder.

        Raise StateError.
        """
        own = self.totals
        missing = {name: max(0.0, totals.get(name, 0.0) - own[name]) for name in own}
        if max(missing.values()) > _ROUNDING:
            with self._lock:
                self._write_surely("carried_over", totals=missing)
                self._carry(missing)

    def earlier_answer(self, request: str) -> tuple[int, Reply] | None:
        """Take an earlier attempt's reply to this request, with the number of its call.

        Each reply is returned once, in the order in which they were requested.
        """
        with self._lock:
            waiting = self._replies.get(request)
            return waiting.popleft() if waiting else None

    @property
    def unused(self) -> list[int]:
        """The calls of earlier attempts whose replies are still waiting for reuse."""
        with self._lock:
            return sorted(number for waiting in self._replies.values() for number, _ in waiting)

    # Inside; the lock is held

    @property
    def _is_here(self) -> bool:
        if self._lines is None or self._place is None:
            return True
        return self._place == str(self._lines.path.absolute())

    @property
    def _lost(self) -> list[Call]:
        return [call for call in self._account.open.values() if call.number < self._own]

    def _sums(self, unsettled: Iterable[Call]) -> dict[str, float]:
        totals = dict(self._account.settled)
        totals["calls"] += len(self._account.open)
        for call in unsettled:
            _add(totals, call.most)
        return totals

    def _sort_replies(self, since: int, under_way: Collection[int]) -> None:
        self._replies.clear()
        answers = self._account.answers
        for position, call, reply in sorted(answers, key=lambda one: (one[1].place, one[1].number)):
            if position > since or call.number in under_way:
                self._replies[call.request].append((call.number, reply))
        answers.clear()

    def _begin(self, run: str, continues: str | None) -> None:
        self._account.ended = self._has_ended = False
        at = str(self._lines.path.absolute()) if self._lines else None
        only = secrets.token_hex(8)  # so that no other run's file begins alike
        self._write_surely(RUN, schema=SCHEMA, run=run, continues=continues, at=at, only=only)

    def _write_surely(self, event: str, **fields: JSON) -> None:
        """Write a line that the run needs. Raise StateError."""
        try:
            self._write(event, **fields)
        except OSError as error:
            assert self._lines is not None
            raise StateError(
                f"the ledger {self._lines.path} cannot be written: {error.strerror}; without it budgets "
                "cannot be kept, so give the run a writable folder"
            ) from None

    def _write(self, event: str, **fields: JSON) -> None:
        self._position += 1
        if self._lines is not None:
            record: dict[str, JSON] = {"line": self._position, "event": event, **fields}
            self._lines.append([checked(record)], sync=True)

    def _read(self) -> tuple[dict[str, _Account], str | None]:
        """Read the file; return each run's account, and the identity of the run that wrote last.

        A run that resumes another run's checkpoint shares its account.
        """
        self.damaged, latest = 0, None
        accounts: dict[str, _Account] = {}
        self._account = _Account()
        self._asked_by = {}
        for record in self._records():
            if record is None:
                self.damaged += 1
            elif record.get("event") == MOVED:
                self._place = ""  # here the run begins again, unlike in the old file
            elif record.get("event") == RUN:
                self._check_schema(record)
                self._place = record.get("at")
                latest = str(record.get("run"))
                continued = record.get("continues")
                known = None if continued is None else self._continued(accounts, str(continued))
                self._account = known or _Account()
                self._account.ended = False
                accounts[latest] = self._account
            elif record.get("event") == "run_ended":
                self._account.ended = True
            else:
                self._take(record)
        return accounts, latest

    def _continued(self, accounts: Mapping[str, _Account], run: str) -> _Account | None:
        """Return this run's account; the latest one if a damaged line may have named the run."""
        return accounts.get(run) or (self._account if self.damaged else None)

    def _records(self) -> Iterator[Mapping[str, JSON] | None]:
        if self._lines is None:
            return
        try:
            for record in self._lines.read():
                if record is None or not is_intact(record):
                    yield None
                else:
                    self._position = max(self._position, int(plausible_number(record, "line")))
                    yield record
        except OSError as error:
            raise StateError(
                f"the ledger {self._lines.path} cannot be read: {error.strerror}; fix that, or move the "
                "file away, and its calls are no longer counted"
            ) from None

    def _check_schema(self, record: Mapping[str, JSON]) -> None:
        if record.get("schema") != SCHEMA:
            assert self._lines is not None
            raise StateError(
                f"the ledger {self._lines.path} has schema {record.get('schema')!r}, this version of "
                f"prompt_coevo reads schema {SCHEMA}; resume with the version that wrote it"
            )

    def _take(self, record: Mapping[str, Any]) -> None:
        try:
            if record["event"] == "carried_over":
                self._carry({name: plausible_number(record["totals"], name) for name in NOTHING})
                return
            number, request = int(record["call"]), str(record["request"])
            if not 0 < number < _MANY:
                raise ValueError("a number that no call has")
            batch, index = record["place"]
            place = int(batch), int(index)
            self._last_call = max(self._last_call, number)
            if record["event"] == "asked":
                most = plausible(Usage(**record["most"]))
                self._account.open[number] = Call(number, request, place, most)
                self._asked_by[number] = self._account
                return
            reply = Reply(**{**record["reply"], "usage": Usage(**record["reply"]["usage"])})
            reply = Reply(reply.text, reply.finish_reason, reply.error, plausible(reply.usage))
            if not isinstance(reply.text, str | None):
                raise TypeError("a reply without a text")
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
            # Edited by hand: the checksum was right.
            self.damaged += 1
            return
        account = self._asked_by.pop(number, self._account)
        account.open.setdefault(number, Call(number, request, place))
        call = _settle(account, number, reply, plausible_number(record, "seconds"))
        if reply.text is not None:
            account.answers.append((self._position, call, reply))

    def _carry(self, totals: Mapping[str, float]) -> None:
        for name, value in totals.items():
            self._account.settled[name] += value


def _settle(account: _Account, number: int, reply: Reply, seconds: float) -> Call:
    account.settled["calls"] += 1
    account.settled["errors"] += reply.error is not None
    _add(account.settled, reply.usage, seconds)
    return account.open.pop(number)


def _add(totals: dict[str, float], usage: Usage, seconds: float = 0.0) -> None:
    totals["prompt_tokens"] += usage.prompt_tokens
    totals["completion_tokens"] += usage.completion_tokens
    totals["usd"] += usage.usd
    totals["seconds"] += seconds


def checked(record: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the line with its checksum."""
    return {**record, "sum": _sum(record)}


def is_intact(record: Mapping[str, JSON]) -> bool:
    """Check a line that was read by its checksum."""
    return record.get("sum") == _sum(
        {name: value for name, value in record.items() if name != "sum"}
    )


def _sum(record: Mapping[str, JSON]) -> int:
    return zlib.crc32(json.dumps(record, sort_keys=True).encode("ascii"))
