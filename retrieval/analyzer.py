"""What splits texts and queries into the words that are searched for."""

from __future__ import annotations

from typing import Protocol


class Analyzer(Protocol):
    """An index is built and asked with one and the same: its manifest says which."""

    def words(self, text: str) -> list[str]:
        """The words of a text or a query, in their order, as often as they come; none is empty.

        Always the same for the same text. It is called from several threads.
        """
        ...
