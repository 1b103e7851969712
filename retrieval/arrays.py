"""Arrays of numbers in files of their own, read where they are wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prompt_coevo.retrieval.errors import IndexFileError


def open_array(path: Path, dimensions: int = 1) -> npt.NDArray[Any]:
    """The array in a file, which is not loaded into memory. Raises IndexFileError for anything else."""
    try:
        found = np.load(path, mmap_mode="r")
    except Exception as error:  # Python's own tokenizer reads the head, and raises what it likes
        raise IndexFileError(
            f"the index file {path} cannot be read: {error}; build the index again"
        ) from None
    if (
        not isinstance(found, np.ndarray)
        or found.ndim != dimensions
        or found.dtype.kind not in "iuf"
    ):
        raise IndexFileError(
            f"the index file {path} does not hold what it should; build the index again"
        )
    return np.asarray(found)
