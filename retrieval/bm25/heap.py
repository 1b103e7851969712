"""The best hits so far in a heap with the worst hit first; compiled as a part of `kernels`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import numba
import numpy as np
import numpy.typing as npt

Given = ParamSpec("Given")
Found = TypeVar("Found")
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


def compiled_part(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Compile a function that other compiled functions call."""
    compiled: Callable[Given, Found] = numba.njit(nogil=True)(function)
    return compiled


def version_of(*sources: str) -> str:
    """Hash these files' contents into a version. Raises OSError for one that cannot be read."""
    return hashlib.sha256(b"".join(Path(one).read_bytes() for one in sources)).hexdigest()[:16]


@compiled_part
def _is_worse(score: float, row: int, than: float, than_row: int) -> bool:
    return score < than or (score == than and row > than_row)


@compiled_part
def _sift_down(scores: Floats, rows: Ints, length: int) -> None:
    """Sift the first hit down; the rest must already be a heap with the worst hit first."""
    score, row, hole = scores[0], rows[0], 0
    while 2 * hole + 1 < length:
        child = 2 * hole + 1
        other = child + 1
        if other < length and _is_worse(scores[other], rows[other], scores[child], rows[child]):
            child = other
        if not _is_worse(scores[child], rows[child], score, row):
            break
        scores[hole], rows[hole] = scores[child], rows[child]
        hole = child
    scores[hole], rows[hole] = score, row


@compiled_part
def keep(scores: Floats, rows: Ints, length: int, score: float, row: int) -> int:
    """Add a hit to the heap if it is among the best; return how many hits it then holds."""
    if length == len(scores):
        if _is_worse(scores[0], rows[0], score, row):
            scores[0], rows[0] = score, row
            _sift_down(scores, rows, length)
        return length
    hole = length
    while hole > 0:
        parent = (hole - 1) // 2
        if not _is_worse(score, row, scores[parent], rows[parent]):
            break
        scores[hole], rows[hole] = scores[parent], rows[parent]
        hole = parent
    scores[hole], rows[hole] = score, row
    return length + 1


@compiled_part
def sort(scores: Floats, rows: Ints, length: int) -> None:
    """Sort a heap by score, best first."""
    for end in range(length - 1, 0, -1):
        score, row = scores[0], rows[0]
        scores[0], rows[0] = scores[end], rows[end]
        _sift_down(scores, rows, end)
        scores[end], rows[end] = score, row
