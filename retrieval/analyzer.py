"""The interface of analyzers, which split texts and queries into searchable words."""

from __future__ import annotations

from typing import Protocol


class Analyzer(Protocol):
    """Splits texts into words. An index is built and queried with the same analyzer, named in its
    manifest."""

    def words(self, text: str) -> list[str]:
        """Return the words of a text or query, in order and with repetitions; none is empty.

        Must always return the same for the same text. Called from several threads.
        """
        ...
