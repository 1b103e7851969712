"""Making an index from vectors: which type, and its file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from prompt_coevo.retrieval.arrays import whole_file, write_head
from prompt_coevo.retrieval.corpus import Progress
from prompt_coevo.retrieval.dense.gpu import gpus_needed
from prompt_coevo.retrieval.dense.partial import Partial, save
from prompt_coevo.retrieval.dense.sources import VectorSource, finite_blocks, refuse_unfinite
from prompt_coevo.retrieval.errors import IndexFileError

FLAT_FILE, FAISS_FILE = "vectors.npy", "vectors.faiss"
CANDIDATES_OF_A_BUILD = 128
"""Among how many a graph looks for the neighbours of a vector. With faiss' own 40 a graph of a million,
searched with the candidates that a search keeps here, finds 86 % of the first three in place of 98 %."""

# Beyond it a single query reads gigabytes.
_LARGEST_FLAT = 1_000_000
_TRAINING_VECTORS = 100_000
_TRAINING_VECTORS_PER_LIST, _SMALLEST_LIST = 64, 39
_OPQ_WORDS = 256  # of the codes that a rotation is trained for
_SPARE_ROOM = 1.01  # how many neighbours there are is chance


def choose_type(
    index: str, passages: int, vectors: int, dimension: int, gpu_bytes: Sequence[int] = ()
) -> str:
    """What "auto" and "IVF,..." stand for, for some of all passages.

    All shards are thought to be searched on one machine, whose GPUs, if any, have so many free bytes.
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
    faiss: Any,
    vectors: VectorSource,
    index: str,
    folder: Path,
    progress: Progress,
    made_of: str = "",
) -> str:
    """Write an index of this type; gives the file's name.

    An index of faiss that was not finished is taken up again if it is `made_of` the same. Raises
    IndexFileError for an unknown type, one that faiss cannot make of the vectors, and for a vector that is
    not finite.
    """
    if index == "Flat":
        _write_flat(vectors, folder / FLAT_FILE, progress)
        return FLAT_FILE
    _write_faiss(faiss, vectors, index, folder, progress, made_of)
    return FAISS_FILE


def new_index(faiss: Any, dimension: int, index: str) -> Any:
    """An empty index for inner products. Raises IndexFileError for a type that cannot be had."""
    try:
        made = faiss.index_factory(dimension, index, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise _no_type(
            f"faiss knows no index {index!r} for vectors of {dimension} numbers ({_reason(error)})"
        ) from None
    if isinstance(made, faiss.IndexIDMap):
        raise _no_type(
            f"an index {index!r} has ids of its own, which must be the rows of the corpus"
        )
    if isinstance(made, faiss.IndexIVF) and made.nlist < 1:
        raise _no_type(f"an index {index!r} has no lists")
    if isinstance(made, faiss.IndexHNSW):
        made.hnsw.efConstruction = CANDIDATES_OF_A_BUILD
    return made


def refuse_too_few(faiss: Any, empty: Any, index: str, count: int) -> None:
    """Raise IndexFileError if such an index cannot be trained with so many vectors."""
    least = _least_vectors(faiss, empty)
    if count < least:
        raise _no_type(
            f"an index {index!r} is trained with {least} vectors at least, but there are {count}"
        )


def _least_vectors(faiss: Any, empty: Any) -> int:
    """What is known to be needed: a vector for each list, and for each word of a code."""
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
        if isinstance(
            quantizer, faiss.IndexFlat | faiss.IndexHNSW
        ):  # others have lists by combination
            least = max(least, int(index.nlist))
    return least


def _no_type(problem: str) -> IndexFileError:
    return IndexFileError(
        f"{problem}; choose another type with --index: auto, Flat, SQfp16, HNSW32,SQ8 or IVF,SQ8"
    )


def _reason(error: RuntimeError) -> str:
    """What faiss says, without the place in its code."""
    return str(error).rpartition(": ")[2]


@contextmanager
def _named_failures(index: str) -> Iterator[None]:
    """Faiss' own errors while vectors are put into an index, as one sentence."""
    try:
        yield
    except RuntimeError as error:
        raise _no_type(
            f"faiss cannot make an index {index!r} of these vectors ({_reason(error)})"
        ) from error


def _write_flat(vectors: VectorSource, path: Path, progress: Progress) -> None:
    """Written in order, not mapped: on a disk that is full a mapping ends the process, without a word."""
    with whole_file(path) as file:
        write_head(file, "<f4", (len(vectors), vectors.dimension))
        for block in finite_blocks(vectors, progress):
            file.write(np.ascontiguousarray(block, dtype="<f4").data)


def _write_faiss(
    faiss: Any, vectors: VectorSource, index: str, folder: Path, progress: Progress, made_of: str
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
            # Levels are chance. Drawn for each block anew, a build that was stopped draws the same.
            made.hnsw.rng = faiss.RandomGenerator(made.ntotal + 1)
        with _named_failures(index):
            made.add(np.ascontiguousarray(block))
        progress(made.ntotal, len(vectors))
        if made.ntotal < len(vectors):
            partial.keep_now_and_then(made)
    save(faiss, made, folder / FAISS_FILE)
    partial.remove()


def _train(faiss: Any, made: Any, vectors: VectorSource) -> None:
    sample = vectors.sample(training_vectors(faiss, made))
    if not np.isfinite(sample).all():
        for _ in finite_blocks(vectors):  # says which one is not
            pass
    made.train(sample)


def training_vectors(faiss: Any, empty: Any) -> int:
    """How many vectors an index is trained with at most."""
    lists = empty.nlist if isinstance(empty, faiss.IndexIVF) else 0
    return max(_TRAINING_VECTORS, _TRAINING_VECTORS_PER_LIST * lists)


def _reserve(faiss: Any, made: Any, count: int) -> None:
    """Room for all vectors at once: what grows step by step is copied, and three times as large then."""
    if isinstance(made, faiss.IndexHNSW):
        graph = made.hnsw
        _grow(graph.neighbors, round(_SPARE_ROOM * count * neighbors_each(faiss, graph)))
        made = made.storage
    made = faiss.downcast_index(made)
    if isinstance(made, faiss.IndexFlatCodes):
        _grow(made.codes, count * made.code_size)


def neighbors_each(faiss: Any, graph: Any) -> float:
    """How many neighbours a vector has room for on average, over the levels that it is drawn into."""
    shares = faiss.vector_to_array(graph.assign_probas).tolist()
    each = (share * graph.cum_nb_neighbors(level) for level, share in enumerate(shares, 1))
    return float(sum(each))


def _grow(values: Any, size: int) -> None:
    now = values.size()
    if size > now:
        values.resize(size)
        values.resize(now)
