"""The tokens of an episode, and which of them are the model's own."""

from __future__ import annotations

from collections.abc import Sequence


class Trajectory:
    """A prompt's ids, followed by spans that were sampled and spans that were observed.

    Sampled ids are kept as sampled, never decoded and re-encoded, so that their log-probs stay valid.
    Nothing is ever cut: an episode that gets too long ends (`room`).
    """

    def __init__(self, prompt_ids: Sequence[int]) -> None:
        self.prompt_ids: list[int] = list(prompt_ids)
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        """Per completion id: 1 for the model's own, 0 for observations."""
        self.own_ranges: list[tuple[int, int]] = []
        """Ranges of the model's turns among the completion ids, end excluded."""
        self.log_probs: list[float] | None = []
        """Per completion id, 0 for observations; None if any turn came without log-probs."""

    def sampled(self, ids: Sequence[int], log_probs: Sequence[float] | None = None) -> None:
        """Append a turn of the model with one log-prob per id, or None if they are unknown.

        Raises ValueError if their numbers differ.
        """
        if log_probs is not None and len(log_probs) != len(ids):
            raise ValueError(
                f"{len(ids)} ids were sampled, but with {len(log_probs)} log-probs; give one for each id"
            )
        self.own_ranges.append((len(self.mask), len(self.mask) + len(ids)))
        self._append(ids, 1, log_probs)

    def observed(self, ids: Sequence[int]) -> None:
        """Append an observation. Its log-probs and mask are 0."""
        self._append(ids, 0, [0.0] * len(ids))

    @property
    def ids(self) -> list[int]:
        """Return prompt and completion, the context of the next turn."""
        return self.prompt_ids + self.completion_ids

    def room(self, limit: int) -> int:
        """Return how many more tokens fit into `limit` tokens of prompt and completion; at least 0."""
        return max(0, limit - len(self.prompt_ids) - len(self.completion_ids))

    def _append(self, ids: Sequence[int], own: int, log_probs: Sequence[float] | None) -> None:
        self.completion_ids.extend(ids)
        self.mask.extend([own] * len(ids))
        if log_probs is None or self.log_probs is None:
            self.log_probs = None
        else:
            self.log_probs.extend(log_probs)
