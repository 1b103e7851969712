"""The budgets of the reflection model, and the costs that count against them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prompt_coevo.lines import JSON
from prompt_coevo.proposals import Usage
from prompt_coevo.settings.reflection import ReflectionSettings

Totals = Mapping[str, float]

NOTHING: Final[Totals] = {
    "calls": 0,
    "errors": 0,
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "usd": 0.0,
    "seconds": 0.0,
}
"""The totals before the first call."""
_WARN_AT: Final = 0.8
"""The share of a budget at which a warning is logged."""
_MOST_OF_A_CALL: Final = 1e12
"""Tokens or dollars; more is implausible."""

_AMOUNTS: Final[Mapping[str, Callable[[Totals], float]]] = {
    "max_calls": lambda totals: totals["calls"],
    "max_total_tokens": lambda totals: totals["prompt_tokens"] + totals["completion_tokens"],
    "max_usd": lambda totals: totals["usd"],
}


@dataclass(frozen=True)
class BudgetEvent:
    """`budget_warning` when the warning share of a budget is reached, `budget_spent` when all of it is."""

    event: str
    name: str
    spent: float
    limit: float

    def __str__(self) -> str:
        if self.event == "budget_spent":
            return f"{_spent(self.name, self.limit)}: evolution stops, training continues"
        return f"{self.spent:g} of the budget {self.name} = {self.limit:g} is used"


class Spending:
    """Compare totals, which the caller keeps, with the budgets that are set. Stateless.

    A call may start if its highest possible cost fits into what is left. If the model does not know that
    cost, a call may start as long as anything is left, so calls under way may exceed the budget.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        self._limits = dict(limits)

    @classmethod
    def from_settings(cls, settings: ReflectionSettings) -> Spending:
        limits = {name: getattr(settings, name) for name in _AMOUNTS}
        return cls({k: v for k, v in limits.items() if v is not None})

    def calls_left(self, totals: Totals) -> float:
        """Return how many calls `max_calls` leaves; infinity without it."""
        return max(0.0, self._limits.get("max_calls", float("inf")) - totals["calls"])

    def refusal(self, totals: Totals, most: Usage = Usage()) -> str | None:
        """Say in a sentence why a call of at most this cost cannot start; return None if it can."""
        after = {
            "calls": totals["calls"] + 1,
            "prompt_tokens": totals["prompt_tokens"] + most.prompt_tokens,
            "completion_tokens": totals["completion_tokens"] + most.completion_tokens,
            "usd": totals["usd"] + most.usd,
        }
        for name, limit in self._limits.items():
            amount = _AMOUNTS[name]
            if amount(totals) >= limit:
                return _spent(f"reflection.{name}", limit)
            if amount(after) > limit:
                return (
                    f"{limit - amount(totals):g} is left of the budget reflection.{name} = {limit:g}, "
                    f"and one more call may cost {amount(after) - amount(totals):g}"
                )
        return None

    def events(self, before: Totals, after: Totals) -> list[BudgetEvent]:
        """Return the events for the marks passed between two totals."""
        marks = [("budget_warning", _WARN_AT), ("budget_spent", 1.0)]
        return [
            BudgetEvent(event, f"reflection.{name}", _AMOUNTS[name](after), limit)
            for name, limit in self._limits.items()
            for event, share in marks
            if _AMOUNTS[name](before) < share * limit <= _AMOUNTS[name](after)
        ]


def _spent(name: str, limit: float) -> str:
    return f"the budget {name} = {limit:g} is spent"


def plausible(usage: object) -> Usage:
    """Clean a backend's usage, so that it can be added up and written down.

    Values that are missing, not a number, not finite, negative or absurdly large become 0.
    """
    return Usage(
        prompt_tokens=int(_plausible(getattr(usage, "prompt_tokens", 0))),
        completion_tokens=int(_plausible(getattr(usage, "completion_tokens", 0))),
        usd=_plausible(getattr(usage, "usd", 0)),
    )


def plausible_number(record: Mapping[str, JSON], name: str) -> float:
    """Clean a number of a record in the same way."""
    return _plausible(record.get(name, 0))


def _plausible(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if 0 <= number <= _MOST_OF_A_CALL else 0.0
