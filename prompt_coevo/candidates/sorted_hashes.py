"""Many 64-bit hashes with what each belongs to: 12 bytes apiece, added to at any time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

_PART: Final = 1 << 19
"""Hashes sorted at once: sorting all would need as much memory again."""


class SortedHashes:
    """Finds the numbers that were added with a hash."""

    def __init__(self) -> None:
        self._parts: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]] = []
        self._new: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]] = []

    def add(self, hashes: NDArray[np.uint64], numbers: NDArray[np.uint32]) -> None:
        """Remember number `numbers[i]` under `hashes[i]`."""
        if len(hashes):
            self._new.append((hashes, numbers))
            if sum(len(one) for one, _ in self._new) >= _PART:
                self._sort()

    def find(self, hashes: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """For each of these hashes that is known, its place in `hashes` and numbers it was added with.

        In no order; a hash may come more than once, with other numbers.
        """
        self._sort()
        for known, numbers in self._parts:
            first = np.searchsorted(known, hashes, "left")
            there = np.flatnonzero(known[np.minimum(first, len(known) - 1)] == hashes)
            ends = np.searchsorted(known, hashes[there], "right")
            for place, end in zip(there.tolist(), ends.tolist(), strict=True):
                yield place, numbers[first[place] : end]

    def _sort(self) -> None:
        """Sort what is new, together with the last part if that is small."""
        if not self._new:
            return
        if self._parts and len(self._parts[-1][0]) < _PART // 2:
            self._new.insert(0, self._parts.pop())
        hashes = np.concatenate([one for one, _ in self._new])
        numbers = np.concatenate([one for _, one in self._new])
        order = np.argsort(hashes)
        self._parts.append((hashes[order], numbers[order]))
        self._new.clear()
