"""Every candidate of a run and what became of it, read off the journal's events as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from prompt_coevo.engine.saved_states import SavedStates

USED: Final = "in use"
_CHANGES: Final = ("population_changed", "templates_assigned", "search_skipped", "search_failed")
_SMALL_CHANGES: Final = ("template_joined", "template_dropped")


@dataclass
class Row:
    """One candidate. `born` is the number of weight updates before it was written."""

    id: str
    kind: str
    text: str
    origin: str
    parent: str
    born: int
    fate: str = "written"
    reason: str = ""
    evidence: str = ""
    """What it is worth, in words: a weight, a score, or how many of its trials it solved."""


class Lineage:
    """Rows by candidate id, in the order of their birth. Takes events whose texts are free of keys."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._takes: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "run_begins": lambda _: self.rows.clear(),
            "candidate_checked": self._checked,
            "candidate_verified": self._verified,
            "population_changed": self._population,
            "instruction_weights": self._weights,
            "templates_assigned": self._assigned,
            "search_skipped": self._without_templates,
            "search_failed": self._without_templates,
            "template_joined": self._joined,
            "template_dropped": self._dropped,
        }

    def take(self, event: Mapping[str, Any]) -> bool | None:
        """One event of the journal: True if it changed what is in use, False if a little, None if not.

        Raises LookupError, TypeError, ValueError or AttributeError for an event of another form.
        """
        name = event.get("event")
        take = self._takes.get(str(name))
        if take is None:
            return None
        take(event)
        return True if name in _CHANGES else False if name in _SMALL_CHANGES else None

    def follow(self, event: Mapping[str, Any]) -> None:
        """As `take`; an event of another form is passed over."""
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            self.take(event)

    def replay(self, events: Iterable[Mapping[str, Any]]) -> None:
        """What earlier attempts of the run wrote. What came after the checkpoint that an attempt went on
        from is left out; damaged events are passed over."""
        kept: list[tuple[int, Mapping[str, Any]]] = []
        states = SavedStates()
        for place, event in enumerate(events):
            name = event.get("event")
            if name == "state_saved":
                states.saved(_step(event), place)
            elif name == "resumed":
                counts = states.resumed(_step(event))
                kept = [(at, one) for at, one in kept if counts(_step(one), at)]
            elif name == "run_begins":
                kept, states = [], SavedStates()
            elif name in self._takes:
                kept.append((place, event))
        for _, event in kept:
            self.follow(event)

    # The events

    def _checked(self, event: Mapping[str, Any]) -> None:
        described = event["candidate"]
        if described is None or described["id"] in self.rows:
            return  # no candidate, or one that was written before
        row = self._row(described, event)
        if event["accepted"]:
            row.fate = "on trial"
        else:
            row.fate, row.reason = "refused by a gate", str(event["reason"])

    def _verified(self, event: Mapping[str, Any]) -> None:
        row = self.rows.get(event["candidate"])
        if row is None:
            return
        own, parents = _mean(event["rewards"]), _mean(event["parent_rewards"])
        row.fate = "accepted" if event["accepted"] else "rejected by its trial"
        of = len(event["rewards"])
        row.reason = f"mean reward {own:.3f}, its parent's {parents:.3f}, on {of} questions"

    def _population(self, event: Mapping[str, Any]) -> None:
        for described in event["added"]:
            self._row(described, event)
        self._now_in_use("instruction", event["population"], "left the population")

    def _weights(self, event: Mapping[str, Any]) -> None:
        for name, weight in event["weights"].items():
            if name in self.rows:
                self.rows[name].evidence = f"weight {weight:.3f}"

    def _assigned(self, event: Mapping[str, Any]) -> None:
        for described in event["pool"]:
            if described["text"]:
                row = self._row(described, event)
                row.evidence = f"mean dev score {_mean(described['dev_scores']):.3f}"
                row.fate = "not needed by the cover"
        self._now_in_use("template", event["cover"], "out of use")

    def _without_templates(self, event: Mapping[str, Any]) -> None:
        self._now_in_use("template", (), "out of use")

    def _joined(self, event: Mapping[str, Any]) -> None:
        self._tried(event).fate = USED

    def _dropped(self, event: Mapping[str, Any]) -> None:
        row = self._tried(event)
        row.fate = "out of use" if row.fate == USED else "rejected by its trial"

    # Inside

    def _tried(self, event: Mapping[str, Any]) -> Row:
        described = {"id": event["template"], "kind": "template", "text": event["text"]}
        row = self._row(described, event)
        row.evidence = f"solved {event['solved']} of {event['tried']} in its trial"
        return row

    def _now_in_use(self, kind: str, names: Iterable[str], left: str) -> None:
        used = set(names)
        for row in self.rows.values():
            if row.id in used:
                row.fate = USED
            elif row.kind == kind and row.fate == USED:
                row.fate = left

    def _row(self, described: Mapping[str, Any], event: Mapping[str, Any]) -> Row:
        """The candidate's row, a new one if it has none."""
        name = described["id"]
        if name not in self.rows:
            parents = described.get("parents") or ()
            self.rows[name] = Row(
                id=name,
                kind=described["kind"],
                text=described["text"],
                origin=described.get("origin") or "",
                parent=parents[0] if parents else "",
                born=int(event.get("step", 0)),
            )
        return self.rows[name]


def _step(event: Mapping[str, Any]) -> int:
    step = event.get("step")
    return step if isinstance(step, int) else 0


def _mean(numbers: Iterable[float]) -> float:
    found = [float(number) for number in numbers]
    return sum(found) / len(found) if found else 0.0
