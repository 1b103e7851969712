"""The token ids of a batch's prompts."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_coevo.tokens import Tokenizer, encode_all


class PromptIds:
    """Token ids of texts that are tokenized together: one by one takes many times as long."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: dict[str, list[int]] = {}

    def ahead(self, texts: Iterable[str]) -> None:
        """Tokenize all texts that will be asked for."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._ids]:
            self._ids |= zip(new, encode_all(self._tokenizer, new), strict=True)

    def of(self, text: str) -> list[int]:
        """Return the ids of one text. All callers get the same list and must not change it."""
        if text not in self._ids:
            self.ahead([text])
        return self._ids[text]

    def clear(self) -> None:
        """Forget them all."""
        self._ids.clear()
