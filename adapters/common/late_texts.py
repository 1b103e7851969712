"""Completions that are fetched only when a method reads them: they may be long, and few are read."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Final

from prompt_coevo.types import LateText

_AHEAD: Final = 64


class LateTexts:
    """The texts of rows that a trainer holds until its step is over.

    `fetch` returns the texts of some rows, by the rows' names. Reading a single text also fetches those of
    the rows after it, for readers that go through all of them. Before the trainer drops its rows, `close`
    fetches the texts that are still referenced.
    """

    def __init__(self, fetch: Callable[[Sequence[str]], Sequence[str]]) -> None:
        self._fetch = fetch
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._held: list[weakref.ref[LateText]] = []
        self._ahead: dict[str, str] = {}
        self._closes = False

    def late(self, name: str) -> LateText:
        """Return a placeholder for the text of this row."""
        self._places[name] = len(self._names)
        self._names.append(name)
        late = LateText(self._bring, name)
        self._held.append(weakref.ref(late))
        return late

    def close(self) -> None:
        """Fetch the texts still needed, at the last moment possible. New rows may be added afterwards."""
        self._closes = True  # no reading ahead: nobody goes through the rest any more
        try:
            LateText.bring([held for one in self._held if (held := one()) is not None])
        finally:
            self._closes = False
        for kept in (self._ahead, self._places, self._names, self._held):
            kept.clear()

    def _bring(self, names: Sequence[str]) -> list[str]:
        if self._closes or len(names) > 1:
            return list(self._fetch(names))
        (name,) = names
        if name not in self._ahead:
            place = self._places[name]
            some = self._names[place : place + _AHEAD]
            self._ahead = dict(zip(some, self._fetch(some), strict=True))
        return [self._ahead[name]]
