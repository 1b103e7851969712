"""A gate for doors: the policy must be able to read a candidate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from prompt_coevo.markers import hookimpl
from prompt_coevo.types import Candidate


class VocabularyGate:
    """Refuses a candidate with text that the policy's vocabulary has no token for.

    `encode` gives the token ids of a text. An id from `size` on has no embedding, which is an error
    deep inside the model; `unknown`, if the tokenizer has such an id, stands for text that is lost.
    """

    def __init__(
        self, encode: Callable[[str], Sequence[int]], size: int | None, unknown: int | None
    ) -> None:
        self._encode = encode
        self._size = size
        self._unknown = unknown
        self._encoding = threading.Lock()

    @hookimpl
    def coevo_check_candidate(self, candidate: Candidate) -> str | None:
        with self._encoding:  # a tokenizer may not be thread-safe
            ids = self._encode(candidate.text)
        if self._size is not None and any(one >= self._size for one in ids):
            return f"it has tokens beyond the {self._size} of the policy's vocabulary"
        if self._unknown is not None and self._unknown in ids:
            return "it has text that the policy's tokenizer does not know"
        return None
