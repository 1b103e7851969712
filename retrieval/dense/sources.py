"""Sources of an index's vectors: an encoder, or an existing index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np

from prompt_coevo.retrieval.corpus import Progress
from prompt_coevo.retrieval.dense.encoders import Vectors
from prompt_coevo.retrieval.errors import IndexFileError

BLOCK_BYTES: Final = 1 << 26
"""Approximate bytes of vectors in memory at once. Larger blocks make building a graph faster."""


class VectorSource(Protocol):
    """Vectors that come in parts."""

    @property
    def dimension(self) -> int: ...

    def __len__(self) -> int: ...

    def blocks(self, first: int = 0) -> Iterator[Vectors]:
        """Yield all from the vector `first` on, in blocks."""
        ...

    def sample(self, count: int) -> Vectors:
        """Return about `count` evenly spread vectors, or all."""
        ...

    def named(self, number: int) -> str:
        """Name this vector for an error."""
        ...


def finite_blocks(source: VectorSource, progress: Progress | None = None) -> Iterator[Vectors]:
    """Yield all blocks; report each used one to `progress`. Raises as `refuse_unfinite`."""
    done = 0
    for block in source.blocks():
        refuse_unfinite(block, done, source)
        yield block
        done += len(block)
        if progress:
            progress(done, len(source))


def refuse_unfinite(block: Vectors, first: int, source: VectorSource) -> None:
    """Raise IndexFileError if a vector in this block, which begins with the vector `first`, is not finite.

    Such a vector is nearest to every query, or spoils the averages that lists are made of.
    """
    wrong = ~np.isfinite(block).all(axis=1)
    if wrong.any():
        raise IndexFileError(
            f"{source.named(first + int(wrong.argmax()))} holds numbers that are not finite (NaN or "
            "infinite); make it again"
        )
