"""When to ask a reflection model again that answers no call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_IN_A_ROW: Final = 8


class Outage:
    """Batches of calls in a row that were lost: all of their calls failed, and nothing was paid for.

    After the first one the next batch waits for an update, then for two, four, ...; after eight no
    further one is made until the next epoch.
    """

    def __init__(self) -> None:
        self._lost = self._again_at = 0

    def lasts(self, step: int) -> bool:
        """Whether nothing is to be asked at this step."""
        return self._lost >= _IN_A_ROW or step < self._again_at

    def lost(self, asked_at: int, step: int) -> None:
        """A batch that began at the step `asked_at` was lost. Those that began before the latest one was
        known to be lost say nothing new."""
        if asked_at >= self._again_at:
            self._again_at = step + 2**self._lost
            self._lost += 1

    def end(self) -> None:
        """A call was answered, or an epoch begins."""
        self._lost = self._again_at = 0

    def to_json(self) -> dict[str, int]:
        return {"lost": self._lost, "again_at": self._again_at}

    def load(self, state: Mapping[str, Any]) -> None:
        self._lost, self._again_at = state["lost"], state["again_at"]
