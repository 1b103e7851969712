"""The page of the preflight: one line per finding."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from prompt_coevo.lines import JSON
from prompt_coevo.redact import redact
from prompt_coevo.visible import in_a_line

Status: TypeAlias = Literal["ok", "note", "warning", "problem"]
"""`note` is information, `warning` needs attention; with a `problem` the run fails or is useless."""

_WIDTH: Final = 100
_STATUS_WIDTH: Final = max(map(len, ("ok", "note", "warning", "problem")))
_LONGEST_TEXT: Final = 1000


@dataclass(frozen=True)
class Line:
    """A finding on one topic, in a sentence or two."""

    status: Status
    topic: str
    text: str

    def __post_init__(self) -> None:
        # It may quote servers and data sets, and goes to a terminal.
        object.__setattr__(self, "text", in_a_line(redact(self.text), _LONGEST_TEXT))


@dataclass(frozen=True)
class Page:
    """All findings, in the order of the checks."""

    lines: tuple[Line, ...]

    def of(self, status: Status) -> list[Line]:
        """Return the lines with this status."""
        return [line for line in self.lines if line.status == status]

    @property
    def exit_status(self) -> int:
        """0, or 1 if there is a problem."""
        return int(bool(self.of("problem")))

    def text(self) -> str:
        """Format the page for a terminal of 100 columns, without colours."""
        return "\n".join([*self._shown(), "", self._verdict])

    def to_json(self) -> dict[str, JSON]:
        """Return the page as JSON values, for programs."""
        return {"ok": not self.exit_status, "lines": [asdict(line) for line in self.lines]}

    def _shown(self) -> Iterator[str]:
        topics = max((len(line.topic) for line in self.lines), default=0)
        for line in self.lines:
            start = f"{line.status:{_STATUS_WIDTH}}  {line.topic:{topics}}  "
            yield textwrap.fill(
                line.text,
                _WIDTH,
                initial_indent=start,
                subsequent_indent=" " * len(start),
                break_long_words=False,
                break_on_hyphens=False,
            )

    @property
    def _verdict(self) -> str:
        problems, warnings = len(self.of("problem")), len(self.of("warning"))
        if problems:
            return f"{plural(problems, 'problem')}, {plural(warnings, 'warning')}"
        return f"no problem, {plural(warnings, 'warning')}"


def plural(number: int, noun: str) -> str:
    """Write a number with its noun: `1 call`, `2 calls`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
