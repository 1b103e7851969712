"""Vectors on GPUs, if the installed faiss supports them.

This project's tests have no GPU; the code follows faiss' documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, Final

import numpy as np

from prompt_coevo.retrieval.dense.encoders import Vectors
from prompt_coevo.retrieval.dense.faiss_package import FaissIndex
from prompt_coevo.retrieval.dense.ranking import Numbers
from prompt_coevo.retrieval.dense.search import FaissVectors, FlatVectors, VectorIndex
from prompt_coevo.retrieval.errors import IndexFileError

GPUS: Final = ("auto", "all", "none")

# Searches on the GPU need additional memory, and faiss would otherwise reserve 1.5 GB at once.
_TEMPORARY_BYTES = 256 << 20
_USABLE = 0.85


def free_gpu_bytes(faiss: ModuleType) -> tuple[int, ...]:
    """Return the free bytes of each visible GPU; empty if faiss has no GPU support."""
    if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        return ()
    import torch

    return tuple(int(torch.cuda.mem_get_info(gpu)[0]) for gpu in range(faiss.get_num_gpus()))


def gpus_needed(count: int, bytes_each: int, free: Sequence[int]) -> int | None:
    """Return how many GPUs, counted from the first, hold so many vectors in equal parts.

    Leaves room for what a search needs. None if all of them together are too small.
    """
    enough = (
        number
        for number in range(1, len(free) + 1)
        if -(-count // number) * bytes_each <= _USABLE * min(free[:number])
    )
    return next(enough, None)


def check_gpus(gpus: str) -> None:
    """Raise IndexFileError unless `gpus` is one of GPUS."""
    if gpus not in GPUS:
        raise IndexFileError(f"gpus must be one of {', '.join(GPUS)}, but is {gpus!r}")


def on_gpu(
    faiss: ModuleType, vectors: FlatVectors | FaissVectors, gpus: str = "auto"
) -> VectorIndex:
    """Put these vectors on as few GPUs as hold them ("auto"), on "all", or on "none".

    "auto" leaves them where they are without a GPU, and for types that no GPU searches here, such as
    graphs. Exact search becomes half precision. Raises IndexFileError if they do not fit, or if "all" is
    impossible.
    """
    free = () if gpus == "none" else free_gpu_bytes(faiss)
    index = vectors.index if isinstance(vectors, FaissVectors) else None
    each = _bytes_each(faiss, vectors, index)
    if not free or each is None:
        if gpus == "all":
            why = (
                f"an {type(index).__name__} cannot be searched there" if free else "faiss sees none"
            )
            raise IndexFileError(
                f"an index cannot be searched on all GPUs: {why}; set gpus to auto"
            )
        return vectors
    needed = gpus_needed(vectors.count, each, free)
    if needed is None:
        sizes = ", ".join(f"{size / 1e9:.1f}" for size in free)
        raise IndexFileError(
            f"an index of {vectors.count * each / 1e9:.1f} GB does not fit on the GPUs, which have "
            f"{sizes} GB free; make a smaller type with --index, as IVF,SQ8, show more GPUs, or set gpus "
            "to none to search on the CPU"
        )
    number = len(free) if gpus == "all" else needed
    if isinstance(index, faiss.IndexIVF):
        return _inverted_file(faiss, index, number)
    return _flat(faiss, vectors, number)


def _bytes_each(
    faiss: ModuleType, vectors: FlatVectors | FaissVectors, index: FaissIndex | None
) -> int | None:
    if isinstance(index, faiss.IndexIVF):
        return int(index.code_size) + 8
    if index is None or isinstance(index, faiss.IndexFlat | faiss.IndexScalarQuantizer):
        return 2 * int(vectors.dimension)
    return None


def _flat(faiss: ModuleType, vectors: FlatVectors | FaissVectors, number: int) -> VectorIndex:
    """Copy chunk by chunk, so that memory never holds a second copy."""
    number = min(number, vectors.count)
    bounds = [vectors.count * part // number for part in range(number + 1)]
    parts = [_empty_flat(faiss, vectors.dimension, gpu) for gpu in range(number)]
    first = 0
    for chunk in vectors.chunks():
        for part, begin, end in zip(parts, bounds, bounds[1:], strict=False):
            own = chunk[max(begin - first, 0) : max(end - first, 0)]
            if len(own):
                part.add(np.ascontiguousarray(own))
        first += len(chunk)
    if number == 1:
        return FaissVectors(faiss, parts[0])
    return GpuShards([FaissVectors(faiss, part) for part in parts])


def _empty_flat(faiss: ModuleType, dimension: int, gpu: int) -> FaissIndex:
    config = faiss.GpuIndexFlatConfig()
    config.useFloat16 = True
    config.device = gpu
    empty: FaissIndex = faiss.GpuIndexFlatIP(_resources(faiss), dimension, config)
    return empty


def _inverted_file(faiss: ModuleType, index: Any, number: int) -> FaissVectors:
    if number == 1:
        copied = faiss.index_cpu_to_gpu(_resources(faiss), 0, index)
        copied.nprobe = index.nprobe
        return FaissVectors(faiss, copied)
    options = faiss.GpuMultipleClonerOptions()
    options.shard = True  # else every GPU would hold all of it; nprobe is copied with each part
    resources = [_resources(faiss) for _ in range(number)]
    copied = faiss.index_cpu_to_gpu_multiple_py(resources, index, options, list(range(number)))
    return FaissVectors(faiss, copied)


def _resources(faiss: ModuleType) -> Any:
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(_TEMPORARY_BYTES)
    return resources


class GpuShards:
    """Consecutive ranges of rows, each on its own GPU; searched at the same time."""

    def __init__(self, parts: Sequence[FaissVectors]) -> None:
        self._parts = parts
        self._firsts = np.cumsum([0, *(part.count for part in parts)])
        self.count, self.dimension = int(self._firsts[-1]), parts[0].dimension
        self._threads = ThreadPoolExecutor(len(parts), "gpu")

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """Search, as `VectorIndex.search`. Each part recomputes its scores, so that they compare."""
        searches = [
            self._threads.submit(part.search, queries, min(k, part.count)) for part in self._parts
        ]
        found = [search.result() for search in searches]
        scores = np.concatenate([scores for scores, _ in found], axis=1)
        numbers = np.concatenate(
            [
                np.where(own < 0, -1, own + first)
                for (_, own), first in zip(found, self._firsts[:-1], strict=True)
            ],
            axis=1,
        )
        order = np.lexsort((numbers, -scores))[:, :k]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)

    def close(self) -> None:
        """Close, as `VectorIndex.close`."""
        self._threads.shutdown()
        for part in self._parts:
            part.close()
