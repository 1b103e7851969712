"""Searching vectors: exactly, in a plain file mapped into memory, or through an index of faiss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, Protocol

from prompt_coevo.retrieval.arrays import open_array
from prompt_coevo.retrieval.dense.encoders import Vectors
from prompt_coevo.retrieval.dense.faiss_package import batch_by_blas
from prompt_coevo.retrieval.dense.ranking import Numbers, best
from prompt_coevo.retrieval.errors import IndexFileError

LEAST_CANDIDATES = 64
"""How many candidates a search keeps in a graph, at least; faiss' own 16 miss many more passages."""

PROBES = 64
"""How many lists of an inverted file are searched."""

_CHUNK_ROWS = 1 << 16

# Types that give their vectors back as they compare them. A graph keeps some candidates anyway, and
# no number of them would be sure; a GPU finds at most so many at once, and rounds queries to halves.
_FLAT: Final = frozenset({"IndexFlat", "IndexFlatIP", "IndexScalarQuantizer"})
_LISTS: Final = frozenset({"IndexIVFFlat", "IndexIVFScalarQuantizer"})
_GRAPHS: Final = frozenset({"IndexHNSWFlat", "IndexHNSWSQ"})
_GPU: Final = "GpuIndexFlatIP"
_MOST_ON_GPU, _HALF_ROUNDING = 1024, 2.0**-10


class VectorIndex(Protocol):
    """Finds the vectors with the largest inner products."""

    count: int
    dimension: int

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """Inner products and numbers of vectors, both [queries, k], the best first; -1 is no vector.

        `k` is at most `count`.
        """
        ...

    def close(self) -> None: ...


class FlatVectors:
    """All vectors in a .npy file: exact. Their alignment there makes faiss as fast as memory allows."""

    error = 0.0

    def __init__(self, faiss: Any, path: Path) -> None:
        self._faiss = faiss
        self._vectors: Vectors | None = open_array(path, dimensions=2)
        self.count, self.dimension = self._vectors.shape
        self.most = self.count

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """As VectorIndex says; of equal vectors the first is first."""
        return best(self, queries, k)

    def nearest(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """As Searched says."""
        inner_product = self._faiss.METRIC_INNER_PRODUCT
        with batch_by_blas(self._faiss) if len(queries) > 1 else nullcontext():
            scores, numbers = self._faiss.knn(queries, self._vectors, k, metric=inner_product)
        return scores, numbers

    def vectors_at(self, numbers: Numbers) -> Vectors:
        """As Searched says."""
        assert self._vectors is not None
        vectors: Vectors = self._vectors[numbers]
        return vectors

    def chunks(self) -> Iterator[Vectors]:
        """All vectors in their order."""
        assert self._vectors is not None
        for first in range(0, self.count, _CHUNK_ROWS):
            yield self._vectors[first : first + _CHUNK_ROWS]

    def close(self) -> None:
        """As VectorIndex says."""
        self._vectors = None


class FaissVectors:
    """An index of faiss, on the CPU or on a GPU."""

    def __init__(self, faiss: Any, index: Any) -> None:
        self._faiss = faiss
        self.index = index
        self.count, self.dimension = index.ntotal, index.d
        kind = type(index).__name__
        self._gives_back = kind in _FLAT | _LISTS | _GRAPHS | {_GPU}
        self.most = min(self._most(kind), self.count)
        self._on_gpu = kind.startswith("Gpu")
        self.error = _HALF_ROUNDING if kind == _GPU else 0.0
        if kind in _LISTS:
            index.make_direct_map()

    def _most(self, kind: str) -> int:
        if kind == _GPU:
            return _MOST_ON_GPU
        return int(self.index.hnsw.efSearch) if kind in _GRAPHS else self.count

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """As VectorIndex says; where docs/retrieval.md promises it, of equal vectors the first is first."""
        return best(self, queries, k) if self._gives_back else self.nearest(queries, k)

    def nearest(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """As Searched says."""
        # On GPUs that means nothing, and parts of an index on several would take turns.
        by_blas = len(queries) > 1 and not self._on_gpu
        with batch_by_blas(self._faiss) if by_blas else nullcontext():
            scores, numbers = self.index.search(queries, k)
        return scores, numbers

    def vectors_at(self, numbers: Numbers) -> Vectors:
        """As Searched says."""
        vectors: Vectors = self.index.reconstruct_batch(numbers)
        return vectors

    def chunks(self) -> Iterator[Vectors]:
        """All vectors in their order, as exactly as the index has them."""
        for first in range(0, self.count, _CHUNK_ROWS):
            yield self.index.reconstruct_n(first, min(_CHUNK_ROWS, self.count - first))

    def close(self) -> None:
        """As VectorIndex says."""
        self.index = None


def candidates(count: int) -> int:
    """How many candidates a search keeps in a graph of so many vectors.

    The same number finds less in a larger graph: 64 find 98.8 % of the first three of 100 000 vectors, as
    many as any number does, but 97.1 % of those of a million, where twice as many find 98.3 %.
    """
    return max(LEAST_CANDIDATES, round(math.sqrt(count) / 8))


def read_faiss_index(faiss: Any, path: Path) -> Any:
    """An index file mapped into memory, set to search well. Raises IndexFileError."""
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        reason = str(error).rpartition(": ")[2]
        raise IndexFileError(
            f"faiss cannot read the index {path}: {reason}; copy it again or build the index again"
        ) from None
    if index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise IndexFileError(
            f"the index {path} compares by distance, but encoders here are compared by inner product"
        )
    if isinstance(index, faiss.IndexHNSW):
        index.hnsw.efSearch = max(candidates(index.ntotal), index.hnsw.efSearch)
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = min(index.nlist, max(PROBES, index.nprobe))
    return index
