"""Check vectors on GPUs: the calls to faiss, with stand-ins that search on the CPU."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from prompt_coevo.retrieval.dense import gpu as vector_gpu
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.dense.search import FaissVectors, FlatVectors
from prompt_coevo.retrieval.errors import IndexFileError

pytestmark = pytest.mark.usefixtures("one_thread_of_faiss")

COUNT, DIMENSION = 300, 64


class GpuIndexFlatIP:
    """Act as faiss' own: vectors and queries are rounded to half precision, and k has a limit."""

    def __init__(self, dimension: int, device: int) -> None:
        self.index = load_faiss().IndexFlatIP(dimension)
        self.d, self.device = dimension, device

    @property
    def ntotal(self) -> int:
        return int(self.index.ntotal)

    def add(self, vectors: Any) -> None:
        self.index.add(vectors.astype(np.float16).astype(np.float32))

    def search(self, queries: Any, k: int) -> Any:
        assert k <= 1024
        return self.index.search(queries.astype(np.float16).astype(np.float32), k)

    def reconstruct_batch(self, numbers: Any) -> Any:
        return self.index.reconstruct_batch(numbers)


class StandInGpus:
    """Provide faiss' GPU names on the CPU; shows which calls are made, not that a GPU executes them."""

    def __init__(self) -> None:
        faiss = load_faiss()
        for name in ("IndexIVF", "IndexFlat", "IndexScalarQuantizer", "METRIC_INNER_PRODUCT"):
            setattr(self, name, getattr(faiss, name))
        self.cvar, self.omp_get_max_threads = faiss.cvar, faiss.omp_get_max_threads
        self.GpuIndexFlatConfig = SimpleNamespace
        self.GpuMultipleClonerOptions = lambda: SimpleNamespace(shard=False)
        self.temporary: list[int] = []
        self.sizes: list[GpuIndexFlatIP] = []
        self.StandardGpuResources = lambda: SimpleNamespace(setTempMemory=self.temporary.append)

    def GpuIndexFlatIP(self, resources: Any, dimension: int, config: Any) -> Any:  # noqa: N802
        assert config.useFloat16
        self.sizes.append(GpuIndexFlatIP(dimension, config.device))
        return self.sizes[-1]

    def index_cpu_to_gpu(self, resources: Any, device: int, index: Any) -> Any:
        return index

    def index_cpu_to_gpu_multiple_py(
        self, resources: list[Any], index: Any, co: Any = None, gpus: Any = None
    ) -> Any:
        assert co.shard
        assert gpus == list(range(len(resources)))
        self.sizes = [GpuIndexFlatIP(index.d, gpu) for gpu in gpus]
        return index


@pytest.fixture
def vectors() -> Any:
    drawn = np.random.default_rng(0).normal(size=(COUNT, DIMENSION)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def indexes(vectors: Any, folder: Path, kinds: tuple[str, ...]) -> dict[str, Any]:
    faiss = load_faiss()
    np.save(folder / "vectors.npy", vectors)
    made: dict[str, Any] = {"file": FlatVectors(faiss, folder / "vectors.npy")}
    for kind in kinds:
        index = faiss.index_factory(DIMENSION, kind, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors)
        index.add(vectors)
        made[kind] = FaissVectors(faiss, index)
    return made


def free(monkeypatch: pytest.MonkeyPatch, *sizes: int) -> Any:
    monkeypatch.setattr(vector_gpu, "free_gpu_bytes", lambda faiss: sizes)
    return StandInGpus()


def test_what_fits_goes_to_the_gpu(
    vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = indexes(vectors, tmp_path, ("SQfp16", "IVF4,SQ8", "HNSW32,SQ8"))
    assert vector_gpu.on_gpu(load_faiss(), made["file"]) is made["file"]
    gpus = free(monkeypatch, 60_000, 60_000)
    on_gpus = ("file", "SQfp16", "IVF4,SQ8")
    for kind in on_gpus:
        after = vector_gpu.on_gpu(gpus, made[kind])
        assert after is not made[kind]
        assert (after.search(vectors[:9], 1)[1][:, 0] == np.arange(9)).all()
        assert vector_gpu.on_gpu(gpus, made[kind], "none") is made[kind]
    assert gpus.temporary == [256 << 20] * 3
    assert vector_gpu.on_gpu(gpus, made["HNSW32,SQ8"]) is made["HNSW32,SQ8"]


def test_what_does_not_fit_is_said_and_stays_on_the_cpu_on_request(
    vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = indexes(vectors, tmp_path, ("SQfp16", "IVF4,SQ8"))
    for kind, index in made.items():
        gpus = free(monkeypatch, 20_000, 9_000)
        for asked in ("auto", "all"):
            with pytest.raises(
                IndexFileError, match=r"does not fit on the GPUs, .* set gpus to none"
            ):
                vector_gpu.on_gpu(gpus, index, asked)
        assert vector_gpu.on_gpu(gpus, index, "none") is index, kind


def test_all_gpus_are_refused_where_there_are_none_or_for_a_graph(
    vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = indexes(vectors, tmp_path, ("HNSW32,SQ8",))
    with pytest.raises(IndexFileError, match="on all GPUs: faiss sees none; set gpus to auto"):
        vector_gpu.on_gpu(load_faiss(), made["file"], "all")
    with pytest.raises(
        IndexFileError, match="on all GPUs: an IndexHNSWSQ cannot be searched there"
    ):
        vector_gpu.on_gpu(free(monkeypatch, 1 << 30), made["HNSW32,SQ8"], "all")
    with pytest.raises(IndexFileError, match="must be one of auto, all, none, but is 'two'"):
        vector_gpu.check_gpus("two")


@pytest.mark.parametrize("chunk", [7, 100, 1000])
@pytest.mark.parametrize(("asked", "parts"), [("auto", 2), ("all", 3)])
def test_several_gpus_find_what_one_finds(
    vectors: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    parts: int,
    chunk: int,
) -> None:
    monkeypatch.setattr("prompt_coevo.retrieval.dense.search._CHUNK_ROWS", chunk)
    vectors[250:] = vectors[:50]  # equal ones on several GPUs
    made = indexes(vectors, tmp_path, ("SQfp16",))
    for index in made.values():
        gpus = free(monkeypatch, 30_000, 30_000, 30_000)
        whole = vector_gpu.on_gpu(free(monkeypatch, 1 << 20), index)
        gpus = free(monkeypatch, 30_000, 30_000, 30_000)
        sharded = vector_gpu.on_gpu(gpus, index, asked)
        assert [part.ntotal for part in gpus.sizes] == [COUNT // parts] * parts
        assert [part.device for part in gpus.sizes] == list(range(parts))
        assert (sharded.count, sharded.dimension) == (COUNT, DIMENSION)
        for k in (1, 5, COUNT):
            scores, numbers = sharded.search(vectors[::9], k)
            assert (numbers == whole.search(vectors[::9], k)[1]).all()
            assert (scores == whole.search(vectors[::9], k)[0]).all()
        sharded.close()


def test_several_gpus_search_at_the_same_time(
    vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = indexes(vectors, tmp_path, ())["file"]
    gpus = free(monkeypatch, 1 << 20, 1 << 20)
    sharded = vector_gpu.on_gpu(gpus, index, "all")
    both, search = threading.Barrier(2, timeout=60), GpuIndexFlatIP.search

    def together(self: Any, queries: Any, k: int) -> Any:
        both.wait()
        return search(self, queries, k)

    monkeypatch.setattr(GpuIndexFlatIP, "search", together)
    for batch in (1, 5):
        found = sharded.search(vectors[:batch], 1)[1]
        assert found[:, 0].tolist() == list(range(batch))


def test_lists_are_cut_among_the_gpus(
    vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = indexes(vectors, tmp_path, ("IVF4,SQ8",))["IVF4,SQ8"]
    gpus = free(monkeypatch, 16_000, 16_000, 16_000)
    vector_gpu.on_gpu(gpus, index)
    assert [part.device for part in gpus.sizes] == [0, 1]
    vector_gpu.on_gpu(gpus, index, "all")
    assert [part.device for part in gpus.sizes] == [0, 1, 2]


def test_more_gpus_than_vectors(
    vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = indexes(vectors[:2], tmp_path, ())["file"]
    sharded = vector_gpu.on_gpu(free(monkeypatch, *[1 << 20] * 5), index, "all")
    assert sharded.search(vectors[:2], 2)[1][:, 0].tolist() == [0, 1]


def test_of_equal_vectors_on_a_gpu_the_first_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    rows = [*[0] * 300, *[1] * 900, 0, 2, 2]
    np.save(tmp_path / "vectors.npy", vectors[rows])
    between = vectors[2] + vectors[1] / 2
    for sizes, asked in (([1 << 30], "auto"), ([1 << 30] * 4, "all")):
        gpus = free(monkeypatch, *sizes)
        flat = FlatVectors(load_faiss(), tmp_path / "vectors.npy")
        index = vector_gpu.on_gpu(gpus, flat, asked)
        assert index.search(np.stack([vectors[0], vectors[1], between]), 5)[1].tolist() == [
            [0, 1, 2, 3, 4],
            [300, 301, 302, 303, 304],
            [1201, 1202, 300, 301, 302],
        ]
