"""Fuzz the ledger of calls with damaged lines, and with forged lines that have a valid checksum."""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any, Final

from fuzz.source import Source, as_json
from fuzz.target import Target, scratch
from prompt_coevo.errors import StateError
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.reflection.ledger import Ledger

_REPLY: Final = {
    "text": "<template>Think.</template>",
    "finish_reason": "stop",
    "error": None,
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "usd": 0.5},
    "retry_after": None,
}
_CALL: Final = {"call": 1, "request": "r1", "place": [1, 0]}
_RECORDS: Final[tuple[dict[str, Any], ...]] = (
    {"line": 1, "event": "run", "schema": 1, "run": "a run", "continues": False},
    {"line": 2, "event": "asked", **_CALL, "most": _REPLY["usage"]},
    {"line": 3, "event": "answered", **_CALL, "seconds": 0.5, "reply": _REPLY},
    {"line": 4, "event": "asked", **_CALL, "call": 2, "most": _REPLY["usage"]},
    {
        "line": 5,
        "event": "gave_up",
        **_CALL,
        "call": 2,
        "seconds": 0.5,
        "reply": {**_REPLY, "text": None, "error": "it is gone"},
    },
    {"line": 6, "event": "carried_over", "totals": {"calls": 2, "errors": 0, "usd": 0.5}},
    {"line": 7, "event": "run_ended"},
)


def ledger_bytes(data: bytes) -> None:
    """Open or refuse any file as a ledger; one that opens must be usable."""
    path = scratch() / "calls.jsonl"
    path.write_bytes(data[1:])
    _live(path, resumed=data[:1] == b"r")


def ledger_records(data: bytes) -> None:
    """Read lines with a valid checksum and invalid content."""
    source = Source(data)
    path = scratch() / "made.jsonl"
    resumed, lines = source.flag(), []
    for record in _RECORDS:
        if action := source.below(4):
            record = source.wrong(record) if action == 3 else record
            lines.append(_summed(record))
    path.write_bytes(b"".join(lines))
    _live(path, resumed=resumed)


def _live(path: Path, *, resumed: bool) -> None:
    ledger = Ledger(path)
    try:
        ledger.open("a run", continues="a run" if resumed else None)
    except StateError:
        return
    _check(ledger)
    earlier = ledger.earlier_answer("r1")
    assert earlier is None or isinstance(earlier[1].text, str)
    ledger.carry_over({"calls": 5, "usd": 1.0})
    call = ledger.asked("r2", (ledger.position, 0), Usage(1, 1, 0.1))
    ledger.answered(call, Reply("yes", usage=Usage(1, 1, 0.1)), 0.5)
    _check(ledger)
    before = ledger.totals
    again = Ledger(path)
    again.open("a run", continues="a run")
    assert again.position >= ledger.position
    assert all(again.totals[name] >= before[name] - 1e-6 * before[name] for name in before)
    found = again.earlier_answer("r2")
    assert found is not None
    assert found[1].text == "yes"


def _check(ledger: Ledger) -> None:
    for totals in (ledger.totals, ledger.most_totals):
        assert all(math.isfinite(value) and value >= 0 for value in totals.values())
    assert 0 <= ledger.lost <= ledger.totals["calls"]


def _summed(record: Any) -> bytes:
    if not isinstance(record, dict):
        return as_json(record) + b"\n"
    try:
        text = json.dumps(record, sort_keys=True)
    except RecursionError:
        return b"[\n"
    return as_json({**record, "sum": zlib.crc32(text.encode())}) + b"\n"


_WHOLE: Final = b"".join(map(_summed, _RECORDS))

TARGETS = {
    "ledger.bytes": Target(
        ledger_bytes, (b"r" + _WHOLE, b"n" + _WHOLE[:700], b"n{}\n" + _WHOLE), 0.25
    ),
    "ledger.records": Target(
        ledger_records,
        (bytes([1]) + bytes([1] * 7), bytes(range(80)), bytes([0, 3, 1, 0, 3] * 30)),
        0.25,
    ),
}
