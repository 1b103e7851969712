"""A journal's line as typed fields. Whatever wrote it, a field of another type is no field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from prompt_coevo.report.run import Moment

_LARGEST: Final = 1e100


class Unreadable(Exception):
    """A field that the event cannot do without is not there, or is something else."""


class Fields:
    """The fields of one event, or of an object inside it."""

    def __init__(self, values: Mapping[str, Any], place: int = 0) -> None:
        """`place` is the number of the event in the journal."""
        self.values = values
        self._place = place

    def text(self, name: str) -> str:
        """Raises Unreadable."""
        value = self.values.get(name)
        if not isinstance(value, str):
            raise Unreadable(name)
        return value

    def maybe(self, name: str) -> str | None:
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def whole(self, name: str) -> int:
        """0 for what is none."""
        value = self.values.get(name)
        return value if is_whole(value) else 0

    def number(self, name: str) -> float | None:
        """None for what is no finite number."""
        return number(self.values.get(name))

    def true(self, name: str) -> bool:
        return self.values.get(name) is True

    def texts(self, name: str) -> list[str]:
        """Without what is none."""
        return [one for one in self._list(name) if isinstance(one, str)]

    def maybe_texts(self, name: str) -> list[str | None]:
        """As many as there are."""
        return [one if isinstance(one, str) else None for one in self._list(name)]

    def numbers(self, name: str) -> list[float]:
        """As many as there are; what is none is 0."""
        return [number(one) or 0.0 for one in self._list(name)]

    def by_name(self, name: str) -> dict[str, float]:
        """The finite numbers of an object."""
        found = {key: number(value) for key, value in self.inside(name).values.items()}
        return {key: value for key, value in found.items() if value is not None}

    def inside(self, name: str) -> Fields:
        """An object, empty if there is none."""
        value = self.values.get(name)
        return Fields(value if isinstance(value, dict) else {})

    def objects(self, name: str) -> list[Fields]:
        return [Fields(one) for one in self._list(name) if isinstance(one, dict)]

    def rows(self, name: str) -> list[list[Any]]:
        return [one for one in self._list(name) if isinstance(one, list)]

    @property
    def at(self) -> Moment:
        return Moment(
            self.whole("attempt"), self.whole("step"), self.maybe("time") or "", self._place
        )

    def _list(self, name: str) -> list[Any]:
        value = self.values.get(name)
        return value if isinstance(value, list) else []


def number(value: object) -> float | None:
    """A finite number, or None. One that no chart has room for is cut."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return max(-_LARGEST, min(found, _LARGEST)) if math.isfinite(found) else None


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number that a float holds exactly."""
    return type(value) is int and abs(value) < 1 << 53
