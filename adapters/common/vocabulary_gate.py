"""A gate for adapters: the policy must be able to read a candidate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prompt_coevo.markers import hookimpl
from prompt_coevo.types import Candidate


class VocabularyGate:
    """Refuses a candidate whose tokens the policy has no embedding for.

    `encode` gives the token ids of a text; an id from `size` on (a tokenizer may have more than the
    model) would be an error deep inside the model, on a GPU one that ends the run. Proposers
    may be counting in other threads with the same tokenizer; `encode` has to bear that.
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
