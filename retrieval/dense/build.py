"""Making an index from vectors: which type, and its file."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from prompt_coevo.retrieval.corpus import Progress
from prompt_coevo.retrieval.dense.encoders import Vectors
from prompt_coevo.retrieval.dense.gpu import fits_gpu
from prompt_coevo.retrieval.errors import IndexFileError

FLAT_FILE, FAISS_FILE = "vectors.npy", "vectors.faiss"

# Beyond it a single query reads gigabytes.
_LARGEST_FLAT = 1_000_000
_TRAINING_VECTORS = 100_000
_TRAINING_VECTORS_PER_LIST, _SMALLEST_LIST = 64, 39


class VectorSource(Protocol):
    """Vectors that come in parts, as `Embeddings` do."""

    @property
    def dimension(self) -> int: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Vectors]: ...

    def sample(self, count: int) -> Vectors:
        """About `count` of them, or all."""
        ...


def choose_type(
    index: str, passages: int, vectors: int, dimension: int, gpu_bytes: int | None
) -> str:
    """What "auto" and "IVF,..." stand for, for some of all passages.

    All shards are thought to be searched on one machine, which has a GPU of so many free bytes or none.
    """
    if index == "auto":
        if gpu_bytes is None:
            index = "Flat" if passages <= _LARGEST_FLAT else "HNSW32,SQ8"
        else:
            index = "SQfp16" if fits_gpu(passages, 2 * dimension, gpu_bytes) else "IVF,SQ8"
    lists = max(1, min(round(4 * math.sqrt(vectors)), vectors // _SMALLEST_LIST))
    return re.sub(r"^IVF,", f"IVF{lists},", index)


def write_index(
    faiss: Any, vectors: VectorSource, index: str, folder: Path, progress: Progress
) -> str:
    """Write an index of this type; gives the file's name. Raises IndexFileError for an unknown type."""
    if index == "Flat":
        _write_flat(vectors, folder / FLAT_FILE, progress)
        return FLAT_FILE
    _write_faiss(faiss, vectors, index, folder / FAISS_FILE, progress)
    return FAISS_FILE


def new_index(faiss: Any, dimension: int, index: str) -> Any:
    """An empty index for inner products. Raises IndexFileError for an unknown type."""
    try:
        return faiss.index_factory(dimension, index, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise IndexFileError(
            f"faiss knows no index {index!r} for vectors of {dimension} numbers "
            f"({str(error).rpartition(': ')[2]}); use auto, Flat, SQfp16, HNSW32,SQ8 or IVF,SQ8"
        ) from None


def _write_flat(vectors: VectorSource, path: Path, progress: Progress) -> None:
    draft = path.with_suffix(".tmp")
    shape = (len(vectors), vectors.dimension)
    target = np.lib.format.open_memmap(draft, mode="w+", dtype=np.float32, shape=shape)
    done = 0
    for part in vectors:
        target[done : done + len(part)] = part
        done += len(part)
        progress(done, len(vectors))
    target.flush()
    draft.replace(path)


def _write_faiss(
    faiss: Any, vectors: VectorSource, index: str, path: Path, progress: Progress
) -> None:
    made = new_index(faiss, vectors.dimension, index)
    if not made.is_trained:
        lists = made.nlist if isinstance(made, faiss.IndexIVF) else 0
        made.train(vectors.sample(max(_TRAINING_VECTORS, _TRAINING_VECTORS_PER_LIST * lists)))
    for part in vectors:
        made.add(np.ascontiguousarray(part))
        progress(made.ntotal, len(vectors))
    draft = path.with_suffix(".tmp")
    faiss.write_index(made, str(draft))
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    draft.replace(path)
