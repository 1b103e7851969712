"""Texts that events speak of, each in the journal once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable


class Texts:
    """Writes a text down the first time that its id is asked for, as an event `text`."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self._written: set[bytes] = set()

    def id(self, text: str) -> str:
        """What an event says in the place of the text: a hash of it."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]
        if digest not in self._written:
            self._written.add(digest)
            self._note("text", id=digest.hex(), text=text)
        return digest.hex()
