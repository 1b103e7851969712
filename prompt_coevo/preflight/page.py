"""The page of a check: one line for each thing that was looked at."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from prompt_coevo.redact import redact
from prompt_coevo.visible import in_a_line

Status: TypeAlias = Literal["ok", "note", "warning", "problem"]
"""`note` is to be known, `warning` to be read; with a `problem` a run fails, or comes to nothing."""

_WIDTH: Final = 100
_STATUS_WIDTH: Final = max(map(len, ("ok", "note", "warning", "problem")))
_LONGEST_TEXT: Final = 1000


@dataclass(frozen=True)
class Line:
    """What was found on one topic, in a sentence or two."""

    status: Status
    topic: str
    text: str

    def __post_init__(self) -> None:
        # Texts of servers and data sets get in here, and the page goes to a terminal.
        object.__setattr__(self, "text", in_a_line(redact(self.text), _LONGEST_TEXT))


@dataclass(frozen=True)
class Page:
    """All that was found, in the order in which it was looked at."""

    lines: tuple[Line, ...]

    def of(self, status: Status) -> list[Line]:
        """The lines of one status."""
        return [line for line in self.lines if line.status == status]

    @property
    def exit_status(self) -> int:
        """0, or 1 if there is a problem."""
        return int(bool(self.of("problem")))

    def text(self) -> str:
        """For a terminal of 100 columns, without colours."""
        return "\n".join([*self._shown(), "", self._verdict])

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
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
