"""Compare the estimate before a build with what the build then takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prompt_coevo.retrieval.dense import estimate
from prompt_coevo.retrieval.dense.build import choose_type, new_index
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.dense.stored import StoredVectors
from prompt_coevo.retrieval.errors import IndexFileError

pytestmark = pytest.mark.usefixtures("one_thread_of_faiss")

DIMENSION = 64
TYPES = [
    *("SQfp16", "SQ8", "SQ4", "HNSW32,SQ8", "HNSW16,Flat", "IVF,SQ8", "IVF,Flat"),
    *("IVF,PQ4x4", "IVF50_HNSW16,SQ8", "PCA32,SQ8", "IVF50,SQ8,RFlat"),
]


@pytest.mark.parametrize("kind", TYPES)
def test_an_index_is_as_large_as_was_said(tmp_path: Path, kind: str) -> None:
    faiss, count = load_faiss(), 4000
    vectors = np.random.default_rng(0).random((count, DIMENSION), np.float32)
    empty = new_index(faiss, DIMENSION, choose_type(kind, count, count, DIMENSION))
    said = estimate.index_bytes(faiss, empty, count)
    empty.train(vectors)
    empty.add(vectors)
    faiss.write_index(empty, str(tmp_path / "index"))
    assert said == pytest.approx((tmp_path / "index").stat().st_size, rel=0.04)


def test_of_a_type_that_is_not_known_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "dimension_of", lambda name: DIMENSION)
    assert estimate.foresee("e5", "NSG16,Flat", None, [1000]) is None
    with pytest.raises(IndexFileError, match="faiss knows no index"):
        estimate.foresee("e5", "nothing", None, [1000])


BUILT = """
import sys, numpy as np
from pathlib import Path
from prompt_coevo.retrieval.dense.build import choose_type, write_index
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.dense.stored import StoredVectors
faiss = load_faiss()
source, folder, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
vectors = StoredVectors(faiss, source)
own = lambda: int(next(l.split()[1] for l in open("/proc/self/status") if l.startswith("VmHWM")))
before = own()
kind = choose_type(kind, len(vectors), len(vectors), vectors.dimension)
write_index(faiss, vectors, kind, folder, lambda done, total: None)
print(own() - before)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    faiss = load_faiss()
    path = tmp_path_factory.mktemp("large") / "flat.index"
    source = faiss.IndexFlatIP(512)
    for seed in range(8):
        source.add(np.random.default_rng(seed).random((25_000, 512), np.float32))
    faiss.write_index(source, str(path))
    return path


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="where Linux tells what was used"
)
@pytest.mark.parametrize("kind", ["SQfp16", "SQ8", "IVF16,SQ8"])
def test_memory_is_what_was_said(
    large: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses 200 000 vectors of 410 MB, enough to see what grows with them."""
    monkeypatch.setattr(estimate, "dimension_of", lambda name: 512)
    said = estimate.foresee("e5", kind, large, [200_000])
    assert said is not None
    command = [sys.executable, "-P", "-c", BUILT, str(large), str(tmp_path), kind]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    taken = 1024 * int(run.stdout)
    assert taken < said.memory < 2 * taken
    written = (tmp_path / "vectors.faiss").stat().st_size
    assert said.parts["index"] == pytest.approx(written, rel=0.02)
    assert said.disk == 2 * said.parts["index"]


@pytest.mark.parametrize(
    ("index", "shards", "size", "memory", "disk"),
    [
        ("auto", [21_015_324], 64.6, 0.2, 0.0),
        ("SQfp16", [21_015_324], 32.3, 32.5, 64.6),
        ("SQ8", [21_015_324], 16.1, 16.3, 32.3),
        ("HNSW32,SQ8", [21_015_324], 21.9, 22.1, 43.7),
        ("IVF,SQ8", [21_015_324], 16.4, 24.7, 32.7),
        ("IVF,PQ96", [21_015_324], 2.2, 4.3, 4.5),
        ("HNSW32,SQ8", [10_507_662, 10_507_662], 21.9, 11.1, 65.1),
    ],
)
def test_wiki_18(
    index: str,
    shards: list[int],
    size: float,
    memory: float,
    disk: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check the numbers of docs/search-agent.md and docs/results-tables.md, without the passages' offsets.

    One file is never split.
    """
    said = told_of_wiki(monkeypatch, index, shards)
    told = list(said.parts.values())[-1], said.memory, said.disk
    assert [round(one / 1e9, 1) for one in told] == [size, memory, disk]


def told_of_wiki(monkeypatch: pytest.MonkeyPatch, index: str, shards: list[int]) -> Any:
    class Ready(StoredVectors):
        type, is_flat, dimension = "IndexFlatIP", True, 768

        def __init__(self, faiss: Any, path: Path) -> None: ...

        def __len__(self) -> int:
            return 21_015_324

        def refuse_inexact(self, wanted: str) -> None: ...

    class Large(type(Path())):  # type: ignore[misc]
        def stat(self, **_: Any) -> Any:
            return type("Facts", (), {"st_size": 4 * 768 * 21_015_324 + 45})

    monkeypatch.setattr(estimate, "StoredVectors", Ready)
    monkeypatch.setattr(estimate, "dimension_of", lambda name: 768)
    ready = Large("e5_Flat.index") if len(shards) == 1 else None
    said = estimate.foresee("e5", index, ready, shards)
    assert said is not None
    return said
