"""Randomness from counters, so that decisions depend on nothing but the seed and what is decided."""

from __future__ import annotations

import hashlib

import numpy as np


def counter_rng(seed: int, stream: str, *counters: int | str) -> np.random.Generator:
    """A generator that is the same for the same seed, stream and counters, in every process.

    Timing, the number of processes and a resume do not change what it draws.
    """
    key = "\0".join([str(seed), stream, *map(str, counters)])
    digest = hashlib.sha256(key.encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype="<u4"))
