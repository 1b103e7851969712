"""The reflection budgets: how much the reflection model may still be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

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

_AMOUNTS: Final[Mapping[str, Callable[[Totals], float]]] = {
    "max_calls": lambda totals: totals["calls"],
    "max_total_tokens": lambda totals: totals["prompt_tokens"] + totals["completion_tokens"],
    "max_usd": lambda totals: totals["usd"],
    "max_seconds": lambda totals: totals["seconds"],
}


@dataclass(frozen=True)
class BudgetEvent:
    """`budget_warning` when the warning share of a cap is reached, `budget_spent` when all of it is."""

    event: str
    name: str
    spent: float
    limit: float

    def __str__(self) -> str:
        if self.event == "budget_spent":
            return f"{_spent(self.name, self.limit)}: evolution stops, training goes on"
        return f"{self.spent:g} of the budget {self.name} = {self.limit:g} is used"


class Spending:
    """The caps that are set, held against totals that the caller keeps. It remembers nothing itself.

    The number of calls is known before they start, and never exceeds the cap in these totals; tokens,
    dollars and seconds are known afterwards, so once a cap on these is reached no further call starts.
    Retries inside a call, and what a killed attempt asked for without recording it, are not in the
    totals.
    """

    def __init__(self, limits: Mapping[str, float], warn_at: float = 0.8) -> None:
        self._limits = dict(limits)
        self._warn_at = warn_at

    @classmethod
    def from_settings(cls, settings: ReflectionSettings) -> Spending:
        limits = {name: getattr(settings, name) for name in _AMOUNTS}
        return cls({k: v for k, v in limits.items() if v is not None}, settings.warn_at)

    def affordable(self, calls: int, totals: Totals, under_way: int = 0) -> int:
        """How many of so many calls may start while `under_way` others are not in the totals yet."""
        for name, limit in self._limits.items():
            if name == "max_calls":
                calls = min(calls, int(limit) - int(totals["calls"]) - under_way)
            elif _AMOUNTS[name](totals) >= limit:
                return 0
        return max(0, calls)

    def refusal(self, totals: Totals) -> str:
        """Why a call that is not affordable cannot start, in one sentence."""
        for name, limit in self._limits.items():
            if name != "max_calls" and _AMOUNTS[name](totals) >= limit:
                return _spent(f"reflection.{name}", limit)
        return _spent("reflection.max_calls", self._limits["max_calls"])

    def events(self, before: Totals, after: Totals) -> list[BudgetEvent]:
        """The marks that were passed between two totals."""
        marks = [("budget_warning", self._warn_at), ("budget_spent", 1.0)]
        return [
            BudgetEvent(event, f"reflection.{name}", _AMOUNTS[name](after), limit)
            for name, limit in self._limits.items()
            for event, share in marks
            if _AMOUNTS[name](before) < share * limit <= _AMOUNTS[name](after)
        ]


def _spent(name: str, limit: float) -> str:
    return f"the budget {name} = {limit:g} is spent"
