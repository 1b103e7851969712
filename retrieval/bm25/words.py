"""Lucene's English stop words, and the hashes that words are looked up by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_COMMON = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these
they this to was will with
"""
STOP_WORDS = frozenset(_COMMON.split())


def hashes(vocabulary: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Hash each word to 64 bits, the same on every machine.

    Two of ten million words collide in one of 400 000 vocabularies; those two then get wrong scores.
    """
    digests = (hashlib.blake2b(word.encode(), digest_size=8).digest() for word in vocabulary)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
