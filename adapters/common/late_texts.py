"""Completions that are brought when a method reads them: long responses are much, and few are read."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Final

from prompt_coevo.types import LateText

_AHEAD: Final = 64


class LateTexts:
    """The texts of rows that a host holds until its step is over.

    `fetch` gives the texts in some rows, by the rows' names. A text that is read by itself comes with
    those of the rows behind it, for readers that go through all of them. When the host is about to let
    go of its rows, `close` fetches the texts that somebody still holds.
    """

    def __init__(self, fetch: Callable[[Sequence[str]], Sequence[str]]) -> None:
        self._fetch = fetch
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._held: list[weakref.ref[LateText]] = []
        self._ahead: dict[str, str] = {}
        self._closes = False

    def late(self, name: str) -> LateText:
        """In place of the text in a row."""
        self._places[name] = len(self._names)
        self._names.append(name)
        late = LateText(self._bring, name)
        self._held.append(weakref.ref(late))
        return late

    def close(self) -> None:
        """The last moment at which texts can be brought; others may be put off afterwards."""
        self._closes = True  # nobody goes through the rest any more
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
