"""Decide when texts go to the trainer's trackers, and leave out trackers that fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from prompt_coevo import hookspecs
from prompt_coevo.adapters.common.trackers.lineage import rows_of
from prompt_coevo.adapters.common.trackers.tables import Tables
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.markers import PROJECT
from prompt_coevo.redact import redact
from prompt_coevo.report.lineage import Lineage
from prompt_coevo.report.run import RunError
from prompt_coevo.visible import in_a_line

logger = logging.getLogger(PROJECT)

_CHANGES: Final = ("population_changed", "templates_assigned", "search_skipped", "search_failed")
_SMALL_CHANGES: Final = ("template_joined", "template_dropped")
_PAUSE: Final = 10
"""Least number of steps between two tables while single templates come and go all the time."""


class Tracker(Protocol):
    """An open run of the trainer's own tracker; it is neither opened nor closed here."""

    name: str

    def write(self, tables: Tables, step: int) -> None:
        """Log the tables. May raise anything."""
        ...


class Texts:
    """Follows an engine's journal and returns tables when there is something new to show."""

    def __init__(self, engine: Coevolution) -> None:
        self._engine = engine
        self._lineage = Lineage()
        self._lock = threading.Lock()
        self._changed = self._changed_a_little = False
        self._last: int | None = None
        """The step of the last tables."""
        self.is_on = engine.settings.trackers == "texts"
        if self.is_on:
            engine.context.journal.listener = self._take

    def due(self, step: int, *, last: bool = False) -> Tables | None:
        """Return the tables if they have changed since they were last returned: at once after a search or
        an evolution, or with `last`; changes of single templates may wait some steps."""
        since = _PAUSE if self._last is None else abs(step - self._last)
        soon = last or since >= _PAUSE
        if not (self._changed or (self._changed_a_little and soon)):
            return None
        best = self._engine.context.first_result(hookspecs.coevo_best_instruction)
        with self._lock:
            self._changed = self._changed_a_little = False
            self._last = step
            return Tables.of(rows_of(self._lineage.run), best.id if best else None)

    def _take(self, event: Mapping[str, Any]) -> None:
        """Record a journal event. Runs in any thread that writes to the journal; must not raise."""
        name = event.get("event")
        with self._lock:
            try:
                if name == "resumed":  # in a new process
                    self._lineage = Lineage()
                    for earlier in self._engine.context.journal.read():
                        self._lineage.take(earlier)
                    self._changed = bool(self._lineage.run.candidates)
                if not self._lineage.take(event):
                    logger.warning("the journal's event %s cannot be shown in a tracker", name)
                    return
            except RunError as error:
                logger.warning("earlier events cannot be shown in a tracker: %s", error)
                return
            self._changed |= name in _CHANGES
            self._changed_a_little |= name in _SMALL_CHANGES


class Writing:
    """Hands tables to trackers. A tracker that fails is logged once and left alone from then on."""

    def __init__(self) -> None:
        self._failed: set[str] = set()

    def write(self, tables: Tables, step: int, trackers: Iterable[Tracker]) -> None:
        """Write to each tracker that has not failed before. Never raises."""
        try:
            found = list(trackers)
        except Exception as error:  # a tracker of another version than we know
            self._give_up("a tracker", error)
            return
        for tracker in found:
            if tracker.name in self._failed:
                continue
            try:
                tracker.write(tables, step)
            except Exception as error:  # it may raise anything, and must not end the run
                self._give_up(tracker.name, error)

    def _give_up(self, name: str, error: Exception) -> None:
        if name not in self._failed:
            self._failed.add(name)
            logger.warning(
                "%s takes no texts (%s: %s); training continues, and its metrics are not affected",
                name,
                type(error).__name__,
                in_a_line(redact(str(error)), 1_000),
            )
