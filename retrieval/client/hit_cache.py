"""Hits that a server returned before."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

from prompt_coevo.retrieval.retriever import Hit

Key: TypeAlias = tuple[str, int]


class HitCache:
    """The `size` most recently used answers, by (query, k), of one index.

    When the fingerprint changes, everything is forgotten. Nothing is kept for a server that tells no
    fingerprint, since it might have got another index meanwhile.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Key, list[Hit]] = OrderedDict()
        self._fingerprint: str | None = None

    def get(self, key: Key) -> list[Hit] | None:
        hits = self._entries.get(key)
        if hits is None:
            return None
        self._entries.move_to_end(key)
        return list(hits)

    def put(self, fingerprint: str | None, key: Key, hits: list[Hit]) -> None:
        self.now_searched(fingerprint)
        if fingerprint is None:
            return
        self._entries[key] = list(hits)
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def now_searched(self, fingerprint: str | None) -> None:
        """A server says what it searches."""
        if fingerprint != self._fingerprint:
            self._entries.clear()
            self._fingerprint = fingerprint
