"""Numeric arrays, one per file, written sequentially and read at random."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from prompt_coevo.retrieval.errors import IndexFileError


def open_array(path: Path, dimensions: int = 1) -> npt.NDArray[Any]:
    """Map the array in a file into memory. Raises IndexFileError for anything else."""
    try:
        found = np.load(path, mmap_mode="r")
    except Exception as error:  # Python's own tokenizer parses the header and may raise anything
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


def write_head(file: BinaryIO, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
    """Write the header of an array's file. The numbers must be written after it, in order."""
    kind = np.lib.format.dtype_to_descr(np.dtype(dtype))
    head = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, head)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write a new file that ends up complete and synced to disk, or not at all."""
    draft = path.with_suffix(".tmp")
    with draft.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
