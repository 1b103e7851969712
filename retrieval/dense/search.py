"""Search vectors: exactly, in a plain file mapped into memory, or through a faiss index."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

from prompt_coevo.retrieval.arrays import open_array
from prompt_coevo.retrieval.dense.encoders import Vectors
from prompt_coevo.retrieval.dense.faiss_package import batch_by_blas
from prompt_coevo.retrieval.dense.ranking import Numbers, best
from prompt_coevo.retrieval.errors import IndexFileError

LEAST_CANDIDATES = 64
"""Least number of candidates that a search keeps in a graph; faiss' own 16 miss many more passages."""

PROBES = 64
"""Number of lists of an inverted file that are searched."""

_CHUNK_ROWS = 1 << 16

# Types that return their vectors as they compare them. A graph keeps some candidates anyway, and no number
# of them would be sure; a GPU finds at most this many at once, and rounds queries to half precision.
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
        """Return inner products and numbers of vectors, both [queries, k], best first; -1 is no vector.

        `k` is at most `count`.
        """
        ...

    def close(self) -> None: ...


class FlatVectors:
    """All vectors in a .npy file: exact. Their alignment there makes faiss as fast as memory allows."""

    error = 0.0

    def __init__(self, faiss: ModuleType, path: Path) -> None:
        self._faiss = faiss
        self._vectors: Vectors | None = open_array(path, dimensions=2)
        self.count, self.dimension = self._vectors.shape
        self.most = self.count

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """Search, as `VectorIndex.search`; among equal vectors the first comes first."""
        return best(self, queries, k)

    def nearest(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """Search inexactly, as `Searched.nearest`."""
        inner_product = self._faiss.METRIC_INNER_PRODUCT
        with batch_by_blas(self._faiss) if len(queries) > 1 else nullcontext():
            scores, numbers = self._faiss.knn(queries, self._vectors, k, metric=inner_product)
        return scores, numbers

    def vectors_at(self, numbers: Numbers) -> Vectors:
        """Return the vectors, as `Searched.vectors_at`."""
        assert self._vectors is not None
        vectors: Vectors = self._vectors[numbers]
        return vectors

    def chunks(self) -> Iterator[Vectors]:
        """Yield all vectors in order."""
        assert self._vectors is not None
        for first in range(0, self.count, _CHUNK_ROWS):
            yield self._vectors[first : first + _CHUNK_ROWS]

    def close(self) -> None:
        """Close, as `VectorIndex.close`."""
        self._vectors = None


class FaissVectors:
    """A faiss index, on the CPU or on a GPU."""

    def __init__(self, faiss: ModuleType, index: Any) -> None:
        self._faiss = faiss
        self.index = index
        self.count, self.dimension = index.ntotal, index.d
        kind = type(index).__name__
        self._gives_back = kind in _FLAT | _LISTS | _GRAPHS | {_GPU}
        self._is_graph = kind in _GRAPHS
        self.most = min(self._most(kind), self.count)
        self._on_gpu = kind.startswith("Gpu")
        self.error = _HALF_ROUNDING if kind == _GPU else 0.0
        if kind in _LISTS:
            index.make_direct_map()

    def _most(self, kind: str) -> int:
        if kind == _GPU:
            return _MOST_ON_GPU
        return int(self.index.hnsw.efSearch) if self._is_graph else self.count

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """Search, as `VectorIndex.search`. The first of equal vectors comes first, where
        docs/search-agent.md promises it."""
        return best(self, queries, k) if self._gives_back else self.nearest(queries, k)

    def nearest(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """Search inexactly, as `Searched.nearest`."""
        # Useless on GPUs, where parts of an index on several of them would take turns.
        by_blas = len(queries) > 1 and not self._on_gpu
        with batch_by_blas(self._faiss) if by_blas else nullcontext():
            scores, numbers = self.index.search(queries, k, **self._options(k))
        return scores, numbers

    def _options(self, k: int) -> dict[str, Any]:
        """Let a graph keep twice as many candidates as hits, since rank fusion asks for many."""
        if not self._is_graph or 2 * k <= self.index.hnsw.efSearch:
            return {}
        return {"params": self._faiss.SearchParametersHNSW(efSearch=2 * k)}

    def vectors_at(self, numbers: Numbers) -> Vectors:
        """Return the vectors, as `Searched.vectors_at`."""
        vectors: Vectors = self.index.reconstruct_batch(numbers)
        return vectors

    def chunks(self) -> Iterator[Vectors]:
        """Yield all vectors in order, as exactly as the index stores them."""
        for first in range(0, self.count, _CHUNK_ROWS):
            yield self.index.reconstruct_n(first, min(_CHUNK_ROWS, self.count - first))

    def close(self) -> None:
        """Close, as `VectorIndex.close`."""
        self.index = None


def candidates(count: int) -> int:
    """Return how many candidates a search keeps in a graph of so many vectors.

    The same number finds less in a larger graph: 64 candidates find 98.8 % of the first three among 100 000
    vectors, as many as any number does, but only 97.1 % among a million, where 128 find 98.3 %.
    """
    return max(LEAST_CANDIDATES, round(math.sqrt(count) / 8))


def read_faiss_index(faiss: ModuleType, path: Path) -> Any:
    """Map an index file into memory and set it up to search well. Raises IndexFileError."""
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
