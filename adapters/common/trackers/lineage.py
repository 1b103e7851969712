"""The rows of a tracker's tables: every candidate of a run, in the words of `docs/report.md`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prompt_coevo.report.run import CandidateRecord, Run
from prompt_coevo.types import EMPTY_TEMPLATE

USED: Final = "in use"


@dataclass(frozen=True)
class Row:
    """One candidate. `born` is the number of weight updates before it was written."""

    id: str
    kind: str
    text: str
    parent: str
    born: int
    fate: str
    reason: str
    evidence: str = ""
    """Its worth in words: a weight, a score, or how many of its trials it solved."""


def rows_of(run: Run) -> list[Row]:
    """Return the rows in order of birth, without candidates that a resume has undone."""
    weights = {
        name: weight
        for _, step in sorted(run.steps.items())
        for name, weight in step.weights.items()
    }
    found = [
        one
        for one in run.candidates.values()
        if one.kind and one.id != EMPTY_TEMPLATE.id and one.fate != "undone"
    ]
    return [_row(one, weights.get(one.id)) for one in sorted(found, key=lambda one: one.born.place)]


def _row(one: CandidateRecord, weight: float | None) -> Row:
    evidence = one.evidence[-1].words if one.evidence else ""
    return Row(
        id=one.id,
        kind=one.kind,
        text=one.text,
        parent=one.parents[0] if one.parents else "",
        born=one.born.step,
        fate=one.fate,
        reason=one.why,
        evidence=evidence if weight is None else f"weight {weight:.3f}",
    )
