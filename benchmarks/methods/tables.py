"""Make Markdown tables of runs: means with 95 % intervals, differences, claims and their outcomes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from intervals import Estimate, difference, estimate, scores
from store import Run

END, AREA = 1, 2
"""Places in a run's `words`."""
_NONE: Final = "–"
_FEWEST_PAIRS: Final = 3
"""With fewer pairs there is no verdict: two seeds say little about a third."""
SMALL: Final = 0.02
"""A difference below this is called small."""

Cell: TypeAlias = Callable[[Sequence[Run]], str]


@dataclass(frozen=True)
class Claim:
    """A claim that one arm beats another on words of a kind, by at least a number."""

    better: str
    worse: str
    kind: str = "hard"
    column: int = END
    by: float = 0.0


def of_arm(runs: Sequence[Run], arm: str, world: str | None = None) -> list[Run]:
    """Return the runs of an arm, in one world or in all."""
    return [run for run in runs if run["arm"] == arm and world in (None, run["world"])]


def table(
    runs: Sequence[Run], arms: Sequence[str], labels: Mapping[str, str], columns: Mapping[str, Cell]
) -> str:
    """Return a table with a row for each arm that has runs."""
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for arm in arms:
        chosen = of_arm(runs, arm)
        if chosen:
            cells = [cell(chosen) for cell in columns.values()]
            lines.append(f"| {labels[arm]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def accuracy(kind: str, column: int = END) -> Cell:
    """Return the mean over words, runs and draws, with its interval; a dash without such words."""

    def cell(runs: Sequence[Run]) -> str:
        found = scores(runs, kind, column)
        return (
            shown(_possible(estimate(found)))
            if all(rows.size for rows in found.values())
            else _NONE
        )

    return cell


def _possible(found: Estimate) -> Estimate:
    """Clip the interval to possible shares."""
    if found.low is None or found.high is None:
        return found
    return replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0))


def less(others: Sequence[Run], kind: str = "hard", column: int = END) -> Cell:
    """Return the paired difference to another arm's runs."""

    def cell(runs: Sequence[Run]) -> str:
        if {run["arm"] for run in runs} == {run["arm"] for run in others}:
            return ""
        found = difference(runs, others, kind, column)
        return _NONE if found is None else shown(found, signed=True)

    return cell


def number(name: str) -> Cell:
    """Return the mean of a count, rounded."""
    return lambda runs: f"{statistics.fmean(run[name] for run in runs):,.0f}".replace(",", " ")


def count(runs: Sequence[Run]) -> str:
    return str(len(runs))


def share(name: str) -> Cell:
    """Return the mean right share over runs of one set that is scored at the end."""

    def cell(runs: Sequence[Run]) -> str:
        shares = [run["last"][name] for run in runs if name in run["last"]]
        asked = sum(total for _, total in shares)
        return f"{sum(right for right, _ in shares) / asked:.2f}" if asked else _NONE

    return cell


def shown(found: Estimate, signed: bool = False) -> str:
    if found.low is None or found.high is None:
        return _rounded(found.mean, signed)
    low, high = (_bound(bound, signed) for bound in (found.low, found.high))
    return f"{_rounded(found.mean, signed)} [{low}, {high}]"


def _bound(value: float, signed: bool) -> str:
    """Format a bound; that of a difference shows on which side of zero it is."""
    near_zero = signed and 0.0005 <= abs(value) < 0.005
    return f"{value:+.3f}" if near_zero else _rounded(value, signed)


def _rounded(value: float, signed: bool) -> str:
    """Format two digits, and no sign at zero."""
    near = round(value, 2) + 0.0
    return f"{near:+.2f}" if signed and near else f"{near:.2f}"


def claims(
    runs: Sequence[Run],
    stated: Sequence[Claim],
    labels: Mapping[str, str],
    world: str | None = None,
) -> str:
    """Return the claims with the paired difference and a verdict."""
    lines = ["| above | below | on | pairs | difference | |", "|---|---|---|---|---|---|"]
    for claim in stated:
        where = f"{claim.kind}{', area' if claim.column == AREA else ''}"
        cells = [labels[claim.better], labels[claim.worse], where, *outcome(runs, claim, world)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def outcome(runs: Sequence[Run], claim: Claim, world: str | None = None) -> list[str]:
    """Return the number of pairs, the paired difference and the verdict."""
    found = difference(
        of_arm(runs, claim.better, world),
        of_arm(runs, claim.worse, world),
        claim.kind,
        claim.column,
    )
    if found is None:
        return ["0", "", "not run"]
    return [str(found.runs), shown(found, True), _verdict(found, claim)]


def _verdict(found: Estimate, claim: Claim) -> str:
    if found.low is None or found.high is None or found.runs < _FEWEST_PAIRS:
        return "too few runs"
    if found.low > claim.by:
        small = "" if found.mean >= SMALL else f", but below {SMALL}"
        return "established" + (f", by more than {claim.by}" if claim.by else small)
    if found.high < claim.by:
        return f"**not by {claim.by}**" if claim.by else "**the other way**"
    return "not established"
