"""A gate for adapters: all tokens of a candidate must be in the policy's vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prompt_coevo.markers import hookimpl
from prompt_coevo.types import Candidate


class VocabularyGate:
    """Refuses a candidate with tokens that the policy has no embedding for.

    `encode` returns the token ids of a text. An id of `size` or more (a tokenizer may have more than the
    model) fails deep inside the model; on a GPU it ends the run. `encode` must be thread-safe, because
    proposers may be counting tokens in other threads with the same tokenizer.
    """

    def __init__(self, encode: Callable[[str], Sequence[int]], size: int | None) -> None:
        self._encode = encode
        self._size = size

    @hookimpl
    def coevo_check_candidate(self, candidate: Candidate) -> str | None:
        ids = self._encode(candidate.text)
        if self._size is not None and any(one >= self._size for one in ids):
            return f"it has tokens beyond the {self._size} of the policy's vocabulary"
        return None
