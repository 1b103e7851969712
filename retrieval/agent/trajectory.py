"""The tokens of an episode, and which of them are the model's own."""

from __future__ import annotations

from collections.abc import Sequence


class Trajectory:
    """A prompt's ids, and after it spans that were sampled and spans that were observed.

    Sampled ids are kept as they were sampled, never decoded and encoded again, so that their log-probs
    stay theirs. Nothing is ever cut: an episode that gets too long ends (`room`).
    """

    def __init__(self, prompt_ids: Sequence[int]) -> None:
        self.prompt_ids: list[int] = list(prompt_ids)
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        """Per completion id: 1 for the model's own, 0 for observations."""
        self.own_ranges: list[tuple[int, int]] = []
        """Where the model's turns are among the completion ids, the end not included."""
        self.log_probs: list[float] | None = []
        """Per completion id, 0 for observations; None if a turn came without."""

    def sampled(self, ids: Sequence[int], log_probs: Sequence[float] | None = None) -> None:
        """Append a turn of the model with one log-prob per id, or None if they are not known.

        Raises ValueError if their numbers differ.
        """
        if log_probs is not None and len(log_probs) != len(ids):
            raise ValueError(
                f"{len(ids)} ids were sampled, but with {len(log_probs)} log-probs; give one for each id"
            )
        self.own_ranges.append((len(self.mask), len(self.mask) + len(ids)))
        self._append(ids, 1, log_probs)

    def observed(self, ids: Sequence[int]) -> None:
        """Append an observation. Its log-probs are 0, its mask is 0."""
        self._append(ids, 0, [0.0] * len(ids))

    @property
    def ids(self) -> list[int]:
        """Prompt and completion: what the next turn is sampled after."""
        return self.prompt_ids + self.completion_ids

    def room(self, limit: int) -> int:
        """How many more tokens fit into `limit` tokens of prompt and completion, 0 if none do."""
        return max(0, limit - len(self.prompt_ids) - len(self.completion_ids))

    def _append(self, ids: Sequence[int], own: int, log_probs: Sequence[float] | None) -> None:
        self.completion_ids.extend(ids)
        self.mask.extend([own] * len(ids))
        if log_probs is None or self.log_probs is None:
            self.log_probs = None
        else:
            self.log_probs.extend(log_probs)
