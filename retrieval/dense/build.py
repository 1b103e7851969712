"""Build an index from vectors: choose its type and write its file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from prompt_coevo.retrieval.arrays import whole_file, write_head
from prompt_coevo.retrieval.corpus import Progress
from prompt_coevo.retrieval.dense.faiss_package import FaissIndex
from prompt_coevo.retrieval.dense.gpu import gpus_needed
from prompt_coevo.retrieval.dense.partial import Partial, save
from prompt_coevo.retrieval.dense.sources import VectorSource, finite_blocks, refuse_unfinite
from prompt_coevo.retrieval.errors import IndexFileError

FLAT_FILE, FAISS_FILE = "vectors.npy", "vectors.faiss"
CANDIDATES_OF_A_BUILD = 128
"""Candidates that a graph examines to find a vector's neighbours. With faiss' default of 40, a graph of a
million vectors, searched with as many candidates as a search keeps here, finds 86 % of the first three
instead of 98 %."""

# Beyond this a single query reads gigabytes.
_LARGEST_FLAT = 1_000_000
_TRAINING_VECTORS = 100_000
_TRAINING_VECTORS_PER_LIST, _SMALLEST_LIST = 64, 39
_OPQ_WORDS = 256  # codewords of the codes that a rotation is trained for
_SPARE_ROOM = 1.01  # the number of neighbours is random


def choose_type(
    index: str, passages: int, vectors: int, dimension: int, gpu_bytes: Sequence[int] = ()
) -> str:
    """Resolve "auto" and "IVF,..." to a type, for `vectors` of all the passages.

    Assumes that all shards are searched on one machine whose GPUs, if any, have this many free bytes.
    """
    if index == "auto":
        if not gpu_bytes:
            index = "Flat" if passages <= _LARGEST_FLAT else "HNSW32,SQ8"
        else:
            fits = gpus_needed(passages, 2 * dimension, gpu_bytes) is not None
            index = "SQfp16" if fits else "IVF,SQ8"
    lists = max(1, min(round(4 * math.sqrt(vectors)), vectors // _SMALLEST_LIST))
    return re.sub(r"^IVF,", f"IVF{lists},", index)


def write_index(
    faiss: ModuleType,
    vectors: VectorSource,
    index: str,
    folder: Path,
    progress: Progress,
    made_of: str = "",
) -> str:
    """Write an index of this type; return the file's name.

    An unfinished faiss index is continued if it is `made_of` the same. Raises IndexFileError for an unknown
    type, for one that faiss cannot make of the vectors, and for a vector that is not finite.
    """
    if index == "Flat":
        _write_flat(vectors, folder / FLAT_FILE, progress)
        return FLAT_FILE
    _write_faiss(faiss, vectors, index, folder, progress, made_of)
    return FAISS_FILE


def new_index(faiss: ModuleType, dimension: int, index: str) -> FaissIndex:
    """Return an empty index for inner products. Raises IndexFileError for an unavailable type."""
    try:
        made: FaissIndex = faiss.index_factory(dimension, index, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise _no_type(
            f"faiss knows no index {index!r} for vectors of {dimension} numbers ({_reason(error)})"
        ) from None
    if isinstance(made, faiss.IndexIDMap):
        raise _no_type(f"an index {index!r} uses its own ids instead of the rows of the corpus")
    if isinstance(made, faiss.IndexIVF) and made.nlist < 1:
        raise _no_type(f"an index {index!r} has no lists")
    if isinstance(made, faiss.IndexHNSW):
        made.hnsw.efConstruction = CANDIDATES_OF_A_BUILD
    return made


def refuse_too_few(faiss: ModuleType, empty: FaissIndex, index: str, count: int) -> None:
    """Raise IndexFileError if an index of this type cannot be trained with so few vectors."""
    least = _least_vectors(faiss, empty)
    if count < least:
        raise _no_type(
            f"an index {index!r} is trained with {least} vectors at least, but there are {count}"
        )


def _least_vectors(faiss: ModuleType, empty: FaissIndex) -> int:
    """Return the least number of vectors known to be needed: one for each list, and for each codeword."""
    index = faiss.downcast_index(empty)
    if isinstance(index, faiss.IndexPreTransform):
        steps = map(index.chain.at, range(index.chain.size()))
        rotated = any(
            isinstance(faiss.downcast_VectorTransform(step), faiss.OPQMatrix) for step in steps
        )
        return max(_OPQ_WORDS if rotated else 1, _least_vectors(faiss, index.index))
    if isinstance(index, faiss.IndexRefine):
        return max(_least_vectors(faiss, part) for part in (index.base_index, index.refine_index))
    if isinstance(index, faiss.IndexHNSW):
        return _least_vectors(faiss, index.storage)
    pq = getattr(index, "pq", None)
    least = 1 if pq is None else int(pq.ksub)
    if isinstance(index, faiss.IndexIVF):
        quantizer = faiss.downcast_index(index.quantizer)
        if isinstance(quantizer, faiss.IndexFlat | faiss.IndexHNSW):  # others combine several lists
            least = max(least, int(index.nlist))
    return least


def _no_type(problem: str) -> IndexFileError:
    return IndexFileError(
        f"{problem}; choose another type with --index: auto, Flat, SQfp16, HNSW32,SQ8 or IVF,SQ8"
    )


def _reason(error: RuntimeError) -> str:
    """Return faiss' message without the place in its code."""
    return str(error).rpartition(": ")[2]


@contextmanager
def _named_failures(index: str) -> Iterator[None]:
    """Turn faiss' errors while adding vectors into one sentence."""
    try:
        yield
    except RuntimeError as error:
        raise _no_type(
            f"faiss cannot make an index {index!r} of these vectors ({_reason(error)})"
        ) from error


def _write_flat(vectors: VectorSource, path: Path, progress: Progress) -> None:
    """Write the vectors in order, not through a mapping: on a full disk that would kill the process
    silently."""
    with whole_file(path) as file:
        write_head(file, "<f4", (len(vectors), vectors.dimension))
        for block in finite_blocks(vectors, progress):
            file.write(np.ascontiguousarray(block, dtype="<f4").data)


def _write_faiss(
    faiss: ModuleType,
    vectors: VectorSource,
    index: str,
    folder: Path,
    progress: Progress,
    made_of: str,
) -> None:
    partial = Partial(faiss, folder, f"{index} of {made_of}")
    made = partial.read()
    if made is None:
        made = new_index(faiss, vectors.dimension, index)
        if not made.is_trained:
            with _named_failures(index):
                _train(faiss, made, vectors)
            partial.keep(made)
    _reserve(faiss, made, len(vectors))
    for block in vectors.blocks(made.ntotal):
        refuse_unfinite(block, made.ntotal, vectors)
        if isinstance(made, faiss.IndexHNSW):
            # Levels are random. Seeded anew for each block, so that a resumed build draws the same.
            made.hnsw.rng = faiss.RandomGenerator(made.ntotal + 1)
        with _named_failures(index):
            made.add(np.ascontiguousarray(block))
        progress(made.ntotal, len(vectors))
        if made.ntotal < len(vectors):
            partial.keep_now_and_then(made)
    save(faiss, made, folder / FAISS_FILE)
    partial.remove()


def _train(faiss: ModuleType, made: FaissIndex, vectors: VectorSource) -> None:
    sample = vectors.sample(training_vectors(faiss, made))
    if not np.isfinite(sample).all():
        for _ in finite_blocks(vectors):  # raises with the name of the vector
            pass
    made.train(sample)


def training_vectors(faiss: ModuleType, empty: FaissIndex) -> int:
    """Return the most vectors that an index is trained with."""
    lists = empty.nlist if isinstance(empty, faiss.IndexIVF) else 0
    return max(_TRAINING_VECTORS, _TRAINING_VECTORS_PER_LIST * lists)


def _reserve(faiss: ModuleType, made: FaissIndex, count: int) -> None:
    """Reserve space for all vectors: growing step by step copies them and peaks at three times the size."""
    if isinstance(made, faiss.IndexHNSW):
        graph = made.hnsw
        _grow(graph.neighbors, round(_SPARE_ROOM * count * neighbors_each(faiss, graph)))
        made = made.storage
    made = faiss.downcast_index(made)
    if isinstance(made, faiss.IndexFlatCodes):
        _grow(made.codes, count * made.code_size)


def neighbors_each(faiss: ModuleType, graph: Any) -> float:
    """Return the mean number of neighbour slots per vector, over the levels that it is drawn into."""
    shares = faiss.vector_to_array(graph.assign_probas).tolist()
    each = (share * graph.cum_nb_neighbors(level) for level, share in enumerate(shares, 1))
    return float(sum(each))


def _grow(values: Any, size: int) -> None:
    now = values.size()
    if size > now:
        values.resize(size)
        values.resize(now)
