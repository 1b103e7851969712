"""The words of many texts as 64-bit hashes, all at once: an object per word would be most of the cost.

A word's hash is the polynomial of its bytes at a fixed odd place, modulo 2**64, and mixed. It is the same
in every process. Nothing here is meant to withstand somebody who wants two words to be alike:
that would get a candidate refused, and no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

_SPACE, _LINE_END, _NINE = ord(" "), ord("\n"), ord("9")


def stable_hash(text: str) -> int:
    """64 bits of a text, the same in every process."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def stable_hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    """64 bits of each text."""
    return np.array([stable_hash(text) for text in texts], dtype=np.uint64)


_BASE: Final = np.uint64(stable_hash("base") | 1)
_BACK: Final = np.uint64(pow(int(_BASE), -1, 1 << 64))
_MIX: Final = np.uint64(stable_hash("mix") | 1)


@dataclass(frozen=True)
class Words:
    """The words of some texts, one text after the other.

    `hashes`, `sizes` (in bytes of UTF-8) and `digits` (whether they begin and end with one) have an entry
    for each word, `counts` one for each text: how many words it has.
    """

    hashes: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    digits: NDArray[np.bool_]
    counts: NDArray[np.int64]

    @property
    def texts(self) -> NDArray[np.int64]:
        """For each word the number of its text."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def hash_words(lines: Sequence[bytes]) -> Words:
    """The words of texts in the form of `normal_line`: in UTF-8, with spaces between them."""
    data = np.frombuffer(b"\n".join([b"", *lines, b""]), dtype=np.uint8)
    inside = data > _SPACE
    starts = np.flatnonzero(inside[1:] > inside[:-1]) + 1
    ends = np.flatnonzero(inside[1:] < inside[:-1]) + 1
    counts = np.diff(np.searchsorted(starts, np.flatnonzero(data == _LINE_END)))
    # A word is the difference of two sums over all bytes, brought back to where words begin.
    sums = np.cumsum(data * _powers(_BASE, len(data)))
    hashes = (sums[ends - 1] - sums[starts - 1]) * _powers(_BACK, len(data))[starts]
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _MIX
    hashes ^= hashes >> np.uint64(29)
    digits = (data[starts] <= _NINE) & (data[ends - 1] <= _NINE)
    return Words(hashes, ends - starts, digits, counts)


def _powers(base: np.uint64, count: int) -> NDArray[np.uint64]:
    return _table_of_powers(base, max(16, count.bit_length()))[:count]


@lru_cache(maxsize=4)
def _table_of_powers(base: np.uint64, bits: int) -> NDArray[np.uint64]:
    found = np.full(1 << bits, base)
    found[0] = 1
    return np.cumprod(found)
