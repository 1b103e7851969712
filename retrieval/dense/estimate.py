"""Estimate the memory and disk for a dense index before it is built, from its type and its vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from prompt_coevo.errors import CoevoError
from prompt_coevo.retrieval.dense.build import (
    choose_type,
    neighbors_each,
    new_index,
    refuse_too_few,
    training_vectors,
)
from prompt_coevo.retrieval.dense.encoders import dimension_of
from prompt_coevo.retrieval.dense.faiss_package import FaissIndex, load_faiss
from prompt_coevo.retrieval.dense.gpu import free_gpu_bytes
from prompt_coevo.retrieval.dense.sources import BLOCK_BYTES
from prompt_coevo.retrieval.dense.stored import StoredVectors

_ID, _LEVEL, _OFFSET, _NEIGHBOR, _NUMBER = 8, 4, 8, 4, 4
# Lists grow by doubling, and are seldom full; measured: tests/retrieval/dense/test_estimate.py.
_LIST_ROOM: Final = 1.5
_TRAINED_AT_ONCE: Final = 100_000  # sample vectors that faiss copies for the codes of lists
_BLOCKS: Final = 3 * BLOCK_BYTES  # one read, the last one still held, and what encoding needs


@dataclass(frozen=True)
class Foreseen:
    """The needs of a build, in bytes.

    `what` is built. `parts` are the larger things that it reads or makes, for display. `memory` and `disk`
    are the peaks.
    """

    what: str
    parts: Mapping[str, int]
    memory: int
    disk: int


class UnknownTypeError(CoevoError, LookupError):
    """The size of an index of this type cannot be computed here."""


def foresee(
    encoder: str, index: str, faiss_file: Path | None, rows: Sequence[int]
) -> Foreseen | None:
    """Estimate what building shards of these sizes takes, without the encoder's own memory.

    Returns None for a faiss type whose size cannot be computed. Raises IndexFileError for a type that faiss
    does not know or cannot make of so few vectors, and for a file that does not fit; EncoderError if the
    length of the encoder's vectors cannot be found out.
    """
    faiss = load_faiss()
    passages, largest, dimension = sum(rows), max(rows), dimension_of(encoder)
    gpu = () if faiss_file is not None else free_gpu_bytes(faiss)
    kind = choose_type(index, passages, largest, dimension, gpu)
    numbers = f"vectors of {dimension} numbers"
    vectors = _NUMBER * dimension * largest
    parts = {}
    if faiss_file is None:
        parts["vectors, until the index is done"] = vectors
    else:
        ready = StoredVectors(faiss, faiss_file)
        ready.refuse_others(passages, dimension, encoder)
        size = faiss_file.stat().st_size
        if ready.stays(index):
            linked = {f"index {faiss_file}, linked": size}
            return Foreseen(f"{ready.type} as it is, {numbers}", linked, _BLOCKS, 0)
        ready.refuse_inexact(kind)
        parts[f"index {faiss_file}, which is read"] = size
    empty = None if kind == "Flat" else new_index(faiss, dimension, kind)
    if empty is not None:
        refuse_too_few(faiss, empty, kind, min(rows))
    try:
        each = [4 * dimension * n if empty is None else index_bytes(faiss, empty, n) for n in rows]
    except UnknownTypeError:
        return None
    parts["index"] = sum(each)
    memory, disk = _BLOCKS, sum(each)
    if empty is not None:
        room = _LIST_ROOM if isinstance(empty, faiss.IndexIVF) else 1.0
        whole = round(room * max(each))
        memory += max(whole, _training_bytes(faiss, empty, largest))
        disk += max(each)  # the last index is written beside what was kept of it
    if faiss_file is None:
        disk += vectors
    return Foreseen(f"{kind}, {numbers}", parts, memory, disk)


def index_bytes(faiss: ModuleType, empty: FaissIndex, count: int) -> int:
    """Return the bytes of an index of this type with so many vectors.

    Raises UnknownTypeError for a type that stores anything but codes, lists and graphs.
    """
    index = faiss.downcast_index(empty)
    if isinstance(index, faiss.IndexPreTransform):
        matrices = [index.chain.at(n) for n in range(index.chain.size())]
        tables = sum(_NUMBER * matrix.d_in * (matrix.d_in + matrix.d_out) for matrix in matrices)
        return int(tables) + index_bytes(faiss, index.index, count)
    if isinstance(index, faiss.IndexRefine):
        both = index.base_index, index.refine_index
        return sum(index_bytes(faiss, part, count) for part in both)
    if isinstance(index, faiss.IndexHNSW):
        links = _NEIGHBOR * neighbors_each(faiss, index.hnsw) + _OFFSET + _LEVEL
        return round(count * links) + index_bytes(faiss, index.storage, count)
    if isinstance(index, faiss.IndexIVF):
        lists = index_bytes(faiss, index.quantizer, index.nlist)
        return lists + count * (int(index.code_size) + _ID) + _codebook(index)
    if hasattr(index, "code_size"):
        return count * int(index.code_size) + _codebook(index)
    raise UnknownTypeError(type(index).__name__)


def _codebook(index: FaissIndex) -> int:
    pq = getattr(index, "pq", None)
    return 0 if pq is None else _NUMBER * int(index.d) * int(pq.ksub)


def _training_bytes(faiss: ModuleType, empty: FaissIndex, count: int) -> int:
    """Return the size of the sample, as `VectorSource.sample` takes it, which also trains the lists."""
    if empty.is_trained:
        return 0
    sample = -(-count // max(1, count // training_vectors(faiss, empty)))
    copied = min(sample, _TRAINED_AT_ONCE) if isinstance(empty, faiss.IndexIVF) else 0
    return int(_NUMBER * empty.d * (sample + copied))
