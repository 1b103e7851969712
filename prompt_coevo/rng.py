"""Counter-based random numbers: a decision depends only on the seed and its own counters."""

from __future__ import annotations

import hashlib

import numpy as np


def counter_rng(seed: int, stream: str, *counters: int | str) -> np.random.Generator:
    """Return the generator of a seed, a stream and counters; it is the same in every process.

    Timing, the number of processes and a resume do not change its draws.
    """
    key = "\0".join([str(seed), stream, *map(str, counters)])
    digest = hashlib.sha256(key.encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype="<u4"))
