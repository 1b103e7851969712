"""Vectors on a GPU, where the faiss that is installed can use one.

No GPU takes part in this project's tests; what is here follows faiss' documentation.
"""

from __future__ import annotations

from typing import Any

from prompt_coevo.retrieval.dense.faiss_package import has_gpu
from prompt_coevo.retrieval.dense.search import FaissVectors, FlatVectors, VectorIndex

# Searches on the GPU want some more, and faiss would otherwise take 1.5 GB at once.
_TEMPORARY_BYTES = 256 << 20
_USABLE = 0.85


def free_gpu_bytes(faiss: Any) -> int | None:
    """What the first GPU has free, None if faiss has no GPU."""
    if not has_gpu(faiss):
        return None
    import torch

    return int(torch.cuda.mem_get_info(0)[0])


def fits_gpu(count: int, bytes_each: int, gpu_bytes: int) -> bool:
    """Whether so many vectors fit, with room for what a search needs."""
    return count * bytes_each <= _USABLE * gpu_bytes


def on_gpu(faiss: Any, vectors: FlatVectors | FaissVectors) -> VectorIndex:
    """These vectors on the GPU if there is one that has room for them, else as they are.

    Exact search becomes one in half precision there. A graph stays on the CPU.
    """
    free = free_gpu_bytes(faiss)
    if free is None:
        return vectors
    index = vectors.index if isinstance(vectors, FaissVectors) else None
    if isinstance(index, faiss.IndexIVF):
        each = index.code_size + 8
        return _inverted_file(faiss, index) if fits_gpu(index.ntotal, each, free) else vectors
    is_flat = index is None or isinstance(index, faiss.IndexFlat | faiss.IndexScalarQuantizer)
    if is_flat and fits_gpu(vectors.count, 2 * vectors.dimension, free):
        return _flat(faiss, vectors)
    return vectors


def _flat(faiss: Any, vectors: FlatVectors | FaissVectors) -> FaissVectors:
    """A chunk at a time is copied, so that memory holds no second copy."""
    config = faiss.GpuIndexFlatConfig()
    config.useFloat16 = True
    index = faiss.GpuIndexFlatIP(_resources(faiss), vectors.dimension, config)
    for chunk in vectors.chunks():
        index.add(chunk)
    return FaissVectors(faiss, index)


def _inverted_file(faiss: Any, index: Any) -> FaissVectors:
    copied = faiss.index_cpu_to_gpu(_resources(faiss), 0, index)
    copied.nprobe = index.nprobe
    return FaissVectors(faiss, copied)


def _resources(faiss: Any) -> Any:
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(_TEMPORARY_BYTES)
    return resources
