"""Read a journal's line as typed fields; it may have been written by any program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeGuard, TypeVar

from prompt_coevo.lines import JSON
from prompt_coevo.report.run import Moment

_LARGEST: Final = 1e100
T = TypeVar("T")


class Unreadable(Exception):
    """A required field of an event is missing or has another type."""


class Fields:
    """The fields of an event, or of an object inside it.

    A text or a number of another type counts as missing. Where a list or an object is expected, anything
    else except null raises Unreadable.
    """

    def __init__(self, values: Mapping[str, JSON], place: int = 0) -> None:
        """`place` is the number of the event in the journal."""
        self.values = values
        self._place = place

    def text(self, name: str) -> str:
        """Return a required text. Raise Unreadable."""
        if (value := self.maybe(name)) is None:
            raise Unreadable(name)
        return value

    def maybe(self, name: str) -> str | None:
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def whole(self, name: str) -> int:
        """Return a whole number, 0 if there is none."""
        value = self.values.get(name)
        return value if is_whole(value) else 0

    def number(self, name: str) -> float | None:
        """Return a finite number, None if there is none."""
        return number(self.values.get(name))

    def true(self, name: str) -> bool:
        return self.values.get(name) is True

    def numbers(self, name: str) -> list[float]:
        """Return a list of numbers, with 0 for elements that are not finite numbers."""
        return [number(one) or 0.0 for one in self._of(list, name)]

    def by_name(self, name: str) -> dict[str, float]:
        """Return the finite numbers of an object by name."""
        found = {key: number(value) for key, value in self.inside(name).values.items()}
        return {key: value for key, value in found.items() if value is not None}

    def inside(self, name: str) -> Fields:
        """Return the fields of an object, empty if there is none."""
        return Fields(self._of(dict, name))

    def objects(self, name: str) -> list[Fields]:
        return [Fields(one) for one in self.items(name, dict)]

    def items(self, name: str, kind: type[T]) -> list[T]:
        """Return the elements of a list that have this type."""
        return [one for one in self._of(list, name) if isinstance(one, kind)]

    @property
    def at(self) -> Moment:
        return Moment(
            self.whole("attempt"), self.whole("step"), self.maybe("time") or "", self._place
        )

    def _of(self, kind: type[T], name: str) -> T:
        value = self.values.get(name)
        if value is None:
            return kind()
        if not isinstance(value, kind):
            raise Unreadable(name)
        return value


def number(value: object) -> float | None:
    """Return a finite number or None. Clip numbers that are too large for a chart."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return max(-_LARGEST, min(found, _LARGEST)) if math.isfinite(found) else None


def is_whole(value: object) -> TypeGuard[int]:
    """Check for a whole number that a float represents exactly."""
    return type(value) is int and abs(value) < 1 << 53
