"""Use one thread, so that the last bits of sums do not depend on the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def one_thread_of_faiss() -> Iterator[None]:
    faiss = pytest.importorskip("faiss")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


@pytest.fixture
def one_thread_of_torch() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
