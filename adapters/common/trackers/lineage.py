"""The rows of a tracker's tables: every candidate of a run, in the words of `docs/report.md`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prompt_coevo.report.run import CandidateRecord, Fate, Run
from prompt_coevo.types import EMPTY_TEMPLATE

USED: Final = "in use"
_FATES: Final[Mapping[Fate, str]] = {
    "refused": "refused by a gate",
    "won its trial": "accepted",
    "lost its trial": "rejected by its trial",
}


@dataclass(frozen=True)
class Row:
    """One candidate. `born` is the number of weight updates before it was written."""

    id: str
    kind: str
    text: str
    parent: str
    born: int
    fate: str
    reason: str = ""
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
        fate=_fate(one),
        reason=_reason(one),
        evidence=evidence if weight is None else f"weight {weight:.3f}",
    )


def _fate(one: CandidateRecord) -> str:
    judged = one.evidence[-1] if one.evidence else None
    if judged and not judged.needed and (not one.turns or one.turns[-1].at <= judged.at):
        return "not needed by the cover"
    if one.fate != "dropped":
        return _FATES.get(one.fate, one.fate)
    if one.kind == "instruction":
        return "left the population"
    was_in_use = len(one.turns) > 1 and one.turns[-2].fate == "in use"
    return "out of use" if was_in_use else "rejected by its trial"


def _reason(one: CandidateRecord) -> str:
    """Return the mean rewards of its trial, or the reason of the gate that refused it."""
    if not one.trials:
        return one.why if one.fate == "refused" else ""
    trial = one.trials[-1]
    return (
        f"mean reward {trial.mean or 0.0:.3f}, its parent's {trial.parent_mean or 0.0:.3f}, "
        f"on {len(trial.questions)} questions"
    )
