"""The two tables that a tracker is given, as plain values and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from prompt_coevo.adapters.common.trackers.lineage import USED, Row
from prompt_coevo.visible import visible

Cells: TypeAlias = list[str | int]

LINEAGE: Final = ("id", "kind", "parent", "born", "fate", "reason", "evidence", "text")
IN_USE: Final = ("kind", "best", "id", "evidence", "text")
_MOST_ROWS: Final = 300
_SHORT, _LONG = 200, 4_000
_TICKS: Final = re.compile(r"`+")
_PUNCTUATION: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$])")


@dataclass(frozen=True)
class Tables:
    """`in_use`: the instructions of the population and the templates that rollouts run under.
    `lineage`: every candidate, those in use first, then the latest. All texts are cut to a length, with
    control characters made visible."""

    in_use: list[Cells]
    lineage: list[Cells]
    left_out: int = 0
    """Number of candidates that are not in `lineage`."""

    @classmethod
    def of(cls, rows: Sequence[Row], best: str | None) -> Tables:
        """Build the tables; `best` is the id of the best instruction, if there is one."""
        used = [row for row in rows if row.fate == USED]
        used.sort(key=lambda row: row.id != best)
        others = [row for row in reversed(rows) if row.fate != USED]
        shown = [*used, *others][:_MOST_ROWS]
        return cls(
            in_use=[_used_cells(row, row.id == best) for row in used[:_MOST_ROWS]],
            lineage=[_lineage_cells(row) for row in shown],
            left_out=len(rows) - len(shown),
        )

    def in_use_markdown(self) -> str:
        """Return `in_use` with every text in its own fence, so that nothing in it is markup."""
        parts = []
        for kind, best, name, evidence, text in self.in_use:
            head = " · ".join(escaped(str(part)) for part in (best, kind, name, evidence) if part)
            parts.append(f"**{head}**\n\n{fenced(str(text))}\n")
        return "\n".join(parts) or "Nothing is in use.\n"

    def lineage_markdown(self) -> str:
        """Return `lineage` as a table whose cells hold no markup."""
        lines = [f"| {' | '.join(LINEAGE)} |", "|---" * len(LINEAGE) + "|"]
        lines += ["| " + " | ".join(map(escaped, map(str, row))) + " |" for row in self.lineage]
        if self.left_out:
            lines += ["", f"{self.left_out} earlier candidates are left out."]
        return "\n".join(lines) + "\n"


def fenced(text: str) -> str:
    """Return a Markdown code block that the text cannot end."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def escaped(text: str) -> str:
    """Return one line of Markdown without markup, links or HTML."""
    line = " ".join(text.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _PUNCTUATION.sub(r"\\\1", line)


def _used_cells(row: Row, is_best: bool) -> Cells:
    best = "best" if is_best else ""
    return [row.kind, best, row.id, row.evidence, visible(row.text, _LONG)]


def _lineage_cells(row: Row) -> Cells:
    reason = visible(row.reason, _SHORT)
    text = visible(row.text, _SHORT)
    return [row.id, row.kind, row.parent, row.born, row.fate, reason, row.evidence, text]
