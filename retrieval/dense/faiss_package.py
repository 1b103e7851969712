"""Import the package faiss when it is needed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import distributions
from types import ModuleType
from typing import Protocol

from prompt_coevo.errors import CoevoError
from prompt_coevo.extras import require
from prompt_coevo.retrieval.dense.encoders import Vectors

_threshold = threading.Lock()


class FaissConflictError(CoevoError, ImportError):
    """Two packages have overwritten each other's module `faiss`."""


class FaissIndex(Protocol):
    """What every index of faiss has. Code that needs more asks for its class first."""

    d: int
    ntotal: int
    is_trained: bool

    def train(self, vectors: Vectors, /) -> None: ...

    def add(self, vectors: Vectors, /) -> None: ...


def load_faiss() -> ModuleType:
    """Return the module `faiss`. Raises MissingExtraError without it.

    Raises FaissConflictError if several packages provide it, such as those for CPU and for GPU.
    """
    names = {re.sub(r"[-_.]+", "-", found.name or "").lower() for found in distributions()}
    rivals = sorted(name for name in names if re.fullmatch(r"faiss-(cpu|gpu(-.+)?)", name))
    if len(rivals) > 1:
        raise FaissConflictError(
            f"{' and '.join(rivals)} are both installed and overwrite each other's module 'faiss'; "
            f"run: pip uninstall {' '.join(rivals)}; then install the one you want again"
        )
    require("faiss", extra="retrieval", purpose="a dense index")
    return import_module("faiss")


@contextmanager
def batch_by_blas(faiss: ModuleType) -> Iterator[None]:
    """Let faiss use matrix multiplication for smaller batches of queries than it would by default.

    Since 1.14, faiss needs 128 000 / dimension queries before it multiplies matrices. That suits machines
    with tens of cores; with few cores, searches take many times as long. According to faiss' authors, the
    two break even at 800 numbers per core (facebookresearch/faiss#5109). The threshold is global to the
    process, so batches take turns.
    """
    with _threshold:
        before = faiss.cvar.distance_compute_blas_threshold
        faiss.cvar.distance_compute_blas_threshold = min(before, 800 * faiss.omp_get_max_threads())
        try:
            yield
        finally:
            faiss.cvar.distance_compute_blas_threshold = before
