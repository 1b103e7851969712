"""Decide when to call a reflection model again that has stopped answering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_IN_A_ROW: Final = 8


class Outage:
    """Count consecutive lost batches of calls. A batch is lost if all its calls failed and cost nothing.

    After the first one the next batch waits one update, then two, four, ...; after eight there is none
    until the next epoch.
    """

    def __init__(self) -> None:
        self._lost = self._again_at = 0

    def lasts(self, step: int) -> bool:
        """Return True if no call should be made at this step."""
        return self._lost >= _IN_A_ROW or step < self._again_at

    def lost(self, asked_at: int, step: int) -> None:
        """Count a lost batch that began at step `asked_at`. Batches that began before the latest loss was
        known are part of the same outage and do not count."""
        if asked_at >= self._again_at:
            self._again_at = step + 2**self._lost
            self._lost += 1

    def end(self) -> None:
        """End the outage, because a call was answered or an epoch begins."""
        self._lost = self._again_at = 0

    def to_json(self) -> dict[str, int]:
        return {"lost": self._lost, "again_at": self._again_at}

    def load(self, state: Mapping[str, int]) -> None:
        self._lost, self._again_at = state["lost"], state["again_at"]
