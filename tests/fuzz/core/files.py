"""Fuzz line files as a crash or another program may leave them."""

from __future__ import annotations

import shutil
from pathlib import Path

from fuzz.source import Source, as_json
from fuzz.target import Target, scratch
from prompt_coevo.engine.journal import Journal
from prompt_coevo.lines import Lines


def read_lines(data: bytes) -> None:
    """Read lines forwards and backwards with the same result."""
    lines = _file("lines", data)
    forwards = list(lines.read())
    assert repr(list(lines.backwards())[::-1]) == repr(forwards)


def append_lines(data: bytes) -> None:
    """Append records to any file; they must be readable."""
    source = Source(data)
    lines = _file("appended", source.bytes())
    before = list(lines.read())
    records = [{source.text(): source.value()} for _ in range(1 + source.below(3))]
    lines.append(records)
    after = list(lines.read())
    assert after[: len(before)] == before or repr(after[: len(before)]) == repr(before)
    assert len(after) == len(before) + len(records)
    assert None not in after[len(before) :]


def journal(data: bytes) -> None:
    """Read and continue any journal file; the next attempt gets a new number."""
    folder = scratch() / "journal"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    old, _, new = data.partition(b"\n\n")
    (folder / "events.0001.jsonl").write_bytes(old)
    (folder / "events.jsonl").write_bytes(new)
    opened = Journal(folder)
    known = sum(1 for _ in opened.read())
    assert all(one is None or isinstance(one, dict) for one in opened.lines())
    attempt = 1 + opened.last_attempt()
    opened.write([{"event": "resumed", "attempt": attempt}])
    assert opened.last_attempt() == attempt
    assert sum(1 for _ in opened.read()) == known + 1


def _file(name: str, data: bytes) -> Lines:
    path: Path = scratch() / name
    path.write_bytes(data)
    return Lines(path)


_LINE = as_json({"time": "t", "event": "reply", "attempt": 3, "step": 1, "text": "é <x>"}) + b"\n"

TARGETS = {
    "lines.read": Target(read_lines, (_LINE * 3, _LINE[:-9], b"\n\n{}\n[]\n7\n" + _LINE), 2.0),
    "lines.append": Target(
        append_lines, (bytes(range(64)), b"\x08{}\n\xff" + bytes(range(90))), 2.0
    ),
    "journal": Target(journal, (_LINE * 2 + b"\n" + _LINE, _LINE * 3 + b"{", b"\n\n"), 0.25),
}
