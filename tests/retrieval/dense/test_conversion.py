"""Check that a ready index converts to another type without embedding anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prompt_coevo.retrieval.dense import partial, stored
from prompt_coevo.retrieval.dense.build import new_index, refuse_too_few, write_index
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.dense.index import open_vectors
from prompt_coevo.retrieval.dense.stored import StoredVectors
from prompt_coevo.retrieval.errors import IndexFileError

pytestmark = pytest.mark.usefixtures("one_thread_of_faiss")

COUNT, DIMENSION, BLOCK = 2000, 16, 300
TYPES = ["SQfp16", "SQ8", "HNSW32,Flat", "HNSW32,SQ8", "IVF,PQ4x4", "IVF,SQ8"]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "BLOCK_BYTES", 4 * DIMENSION * BLOCK)


@pytest.fixture
def kept_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "_PAUSE_S", 0.0)
    monkeypatch.setattr(partial, "_PAUSE_PER_WRITE", 0.0)


def made_vectors(count: int = COUNT, dimension: int = DIMENSION) -> Any:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, dimension))[rng.integers(0, 40, count)]
    vectors = (centres + 0.6 * rng.normal(size=(count, dimension))).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ready(path: Path, vectors: Any, kind: str = "Flat") -> Path:
    faiss = load_faiss()
    index = faiss.index_factory(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, str(path))
    return path


def convert(source: Path, kind: str, folder: Path, progress: Any = lambda done, total: None) -> Any:
    faiss = load_faiss()
    vectors = StoredVectors(faiss, source)
    folder.mkdir(exist_ok=True)
    kind = kind.replace("IVF,", "IVF20,")
    file = folder / write_index(faiss, vectors, kind, folder, progress, vectors.fingerprint)
    return vectors, file


@pytest.mark.parametrize("kind", TYPES)
def test_a_converted_index_finds_what_its_source_finds(
    tmp_path: Path, kind: str, small_blocks: None
) -> None:
    vectors = made_vectors()
    source = ready(tmp_path / "flat.index", vectors)
    read, file = convert(source, kind, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["vectors.faiss"]
    asked = made_vectors()[::7] + 0.05 * np.random.default_rng(1).normal(size=DIMENSION)
    asked = asked.astype(np.float32)
    _, wanted = open_vectors(load_faiss(), source).search(asked, 3)
    _, found = open_vectors(load_faiss(), file).search(asked, 3)
    shared = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), wanted.tolist(), strict=True))
    assert shared / wanted.size > (0.2 if "PQ" in kind else 0.95)
    trained = kind not in ("SQfp16", "HNSW32,Flat")
    assert read.bytes_read == (1 + trained) * vectors.nbytes


@pytest.mark.parametrize("kind", ["Flat", "HNSW16,Flat", "IVF20,Flat", "SQfp16", "IVF20,SQfp16"])
def test_all_types_that_hold_vectors_give_them_back_in_their_order(
    tmp_path: Path, kind: str, small_blocks: None
) -> None:
    vectors = made_vectors()
    source = StoredVectors(load_faiss(), ready(tmp_path / "x.index", vectors, kind))
    for first in (0, 1, BLOCK, COUNT - 1, COUNT):
        blocks = list(source.blocks(first))
        assert all(len(block) <= BLOCK for block in blocks)
        found = np.concatenate([np.empty((0, DIMENSION)), *blocks])
        assert np.allclose(found, vectors[first:], atol=1e-3 if "SQfp16" in kind else 0)
    for count in (1, 7, COUNT, 10 * COUNT):
        sample = source.sample(count)
        assert min(count, COUNT) <= len(sample) <= 2 * count
        assert np.allclose(sample, vectors[:: max(1, COUNT // count)], atol=1e-3)


@pytest.mark.parametrize("kind", ["SQ8", "PQ4x4", "IVF20,PQ4x4", "HNSW16,SQ8", "PCA8,Flat"])
def test_what_holds_vectors_only_roughly_is_not_converted(tmp_path: Path, kind: str) -> None:
    source = StoredVectors(load_faiss(), ready(tmp_path / "x.index", made_vectors(), kind))
    with pytest.raises(
        IndexFileError, match=r"cannot become SQ8: its type, Index\w+, keeps vectors"
    ):
        source.refuse_inexact("SQ8")


class Stopped(Exception):
    pass


@pytest.mark.parametrize("kind", ["SQ8", "HNSW32,SQ8", "IVF,SQ8", "IVF,PQ4x4"])
@pytest.mark.parametrize("stopped_after", [1, 2, 6])
def test_a_stopped_conversion_goes_on_and_ends_the_same(
    tmp_path: Path, kind: str, stopped_after: int, small_blocks: None, kept_always: None
) -> None:
    source = ready(tmp_path / "flat.index", made_vectors())
    _, whole = convert(source, kind, tmp_path / "whole")

    def stop(done: int, total: int) -> None:
        if done >= stopped_after * BLOCK:
            raise Stopped

    with pytest.raises(Stopped):
        convert(source, kind, tmp_path / "parts", stop)
    seen: list[int] = []
    read, file = convert(source, kind, tmp_path / "parts", lambda done, total: seen.append(done))
    begun = (stopped_after - 1) * BLOCK  # progress is reported before it is saved
    assert read.bytes_read == 4 * DIMENSION * (COUNT - begun)
    assert seen[0] == min(begun + BLOCK, COUNT)
    assert file.read_bytes() == whole.read_bytes()
    assert [path.name for path in file.parent.iterdir()] == ["vectors.faiss"]


def test_what_was_kept_of_other_vectors_or_is_damaged_is_not_used(
    tmp_path: Path, small_blocks: None, kept_always: None
) -> None:
    first = ready(tmp_path / "first.index", made_vectors())
    second = ready(tmp_path / "second.index", -made_vectors())
    for number, source in enumerate((first, second)):

        def stop(done: int, total: int) -> None:
            if done >= 3 * BLOCK:
                raise Stopped

        with pytest.raises(Stopped):
            convert(source, "SQ8", tmp_path / "out", stop)
        assert len(list((tmp_path / "out").glob("partial-*"))) == 1, number
    kept = next((tmp_path / "out").glob("partial-*"))
    kept.write_bytes(kept.read_bytes()[:-50])
    read, file = convert(second, "SQ8", tmp_path / "out")
    assert read.bytes_read == 2 * made_vectors().nbytes
    assert file.read_bytes() == convert(second, "SQ8", tmp_path / "clean")[1].read_bytes()


KILLED = """
import os, signal, sys
from pathlib import Path
from prompt_coevo.retrieval.dense import partial, stored
from prompt_coevo.retrieval.dense.build import new_index, refuse_too_few, write_index
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
faiss = load_faiss()
faiss.omp_set_num_threads(1)
stored.BLOCK_BYTES = 4 * 16 * 300
partial._PAUSE_S = partial._PAUSE_PER_WRITE = 0.0
source, folder = map(Path, sys.argv[1:])
vectors = stored.StoredVectors(faiss, source)
kill = lambda done, total: done >= 1200 and os.kill(os.getpid(), signal.SIGKILL)
write_index(faiss, vectors, "HNSW32,SQ8", folder, kill, vectors.fingerprint)
"""


def test_a_killed_conversion_goes_on(tmp_path: Path, small_blocks: None) -> None:
    source = ready(tmp_path / "flat.index", made_vectors())
    (tmp_path / "killed").mkdir()
    command = [sys.executable, "-P", "-c", KILLED, str(source), str(tmp_path / "killed")]
    assert subprocess.run(command, env=dict(os.environ)).returncode == -signal.SIGKILL
    read, file = convert(source, "HNSW32,SQ8", tmp_path / "killed")
    assert read.bytes_read == 4 * DIMENSION * (COUNT - 900)
    assert file.read_bytes() == convert(source, "HNSW32,SQ8", tmp_path / "at once")[1].read_bytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["Flat", "SQfp16", "HNSW32,SQ8", "IVF,SQ8"])
def test_vectors_that_are_not_finite_are_refused_and_named(
    tmp_path: Path, kind: str, bad: float, small_blocks: None
) -> None:
    vectors = made_vectors()
    vectors[[1234, 1999], [5, 0]] = bad
    source = ready(tmp_path / "flat.index", vectors)
    message = (
        r"vector 1234 of the index .*flat.index \(line 1235 of the corpus\) holds numbers that"
    )
    with pytest.raises(IndexFileError, match=message):
        convert(source, kind, tmp_path / "out")
    assert not (tmp_path / "out" / "vectors.faiss").exists()
    assert not (tmp_path / "out" / "vectors.npy").exists()


def test_a_file_that_breaks_off_is_refused(tmp_path: Path) -> None:
    source = ready(tmp_path / "flat.index", made_vectors())
    opened = StoredVectors(load_faiss(), source)
    with source.open("rb+") as file:
        file.truncate(source.stat().st_size - 1000)
    with pytest.raises(IndexFileError, match="breaks off while it is read; copy it again"):
        list(opened.blocks())


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("IVF4096,SQ8", "is trained with 4096 vectors at least, but there are 200"),
        ("IVF,PQ4", "'IVF20,PQ4' is trained with 256 vectors at least"),
        ("OPQ4,PQ4x4", "is trained with 256 vectors at least"),
        ("IDMap,Flat", "uses its own ids"),
        ("IVF0,Flat", "has no lists"),
        ("LSH", "faiss knows no index 'LSH'"),
    ],
)
def test_a_type_that_cannot_be_made_is_known_before_anything_is_embedded(
    tmp_path: Path, kind: str, problem: str
) -> None:
    faiss, kind = load_faiss(), kind.replace("IVF,", "IVF20,")
    with pytest.raises(IndexFileError, match=f"{problem}.*choose another type with --index"):
        refuse_too_few(faiss, new_index(faiss, DIMENSION, kind), kind, 200)


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("PQ4x4", 16),
        ("IVF20,Flat", 20),
        ("IVF20,PQ4x4", 20),
        ("IVF20_HNSW8,SQ8", 20),
        ("PQ4x4,RFlat", 16),
        ("OPQ4,SQ8", 256),
        ("PCA8,IVF20,SQ8", 20),
    ],
)
def test_no_type_is_refused_for_which_faiss_has_enough(kind: str, least: int) -> None:
    faiss, vectors = load_faiss(), made_vectors(300)
    enough, empty = (new_index(faiss, DIMENSION, kind) for _ in range(2))
    enough.train(vectors[:least])
    refuse_too_few(faiss, empty, kind, least)
    with pytest.raises(RuntimeError):
        empty.train(vectors[: least - 1])
    with pytest.raises(IndexFileError, match=f"with {least} vectors at least, .* {least - 1};"):
        refuse_too_few(faiss, new_index(faiss, DIMENSION, kind), kind, least - 1)


def test_what_faiss_says_while_it_builds_is_one_sentence(tmp_path: Path) -> None:
    source = ready(tmp_path / "flat.index", made_vectors(50))
    with pytest.raises(IndexFileError, match="faiss cannot make an index 'NSG16' of these vectors"):
        convert(source, "NSG16", tmp_path / "out")


def test_lists_with_ids_of_their_own_are_refused(tmp_path: Path) -> None:
    faiss, vectors = load_faiss(), made_vectors()
    lists = faiss.index_factory(DIMENSION, "IVF20,Flat", faiss.METRIC_INNER_PRODUCT)
    lists.train(vectors)
    lists.add_with_ids(vectors, np.arange(100, 100 + COUNT))
    faiss.write_index(lists, str(tmp_path / "lists.index"))
    with pytest.raises(IndexFileError, match="uses its own ids"):
        StoredVectors(faiss, tmp_path / "lists.index")


@pytest.mark.parametrize("kind", ["Flat", "SQ8"])
def test_a_disk_that_is_full_is_an_error_of_the_disk(tmp_path: Path, kind: str) -> None:
    """The process limits its own file size, which fails like a full disk."""
    source = ready(tmp_path / "flat.index", made_vectors())
    code = (
        "import resource, sys; from pathlib import Path; "
        "from prompt_coevo.retrieval.dense.build import write_index; "
        "from prompt_coevo.retrieval.dense.faiss_package import load_faiss; "
        "from prompt_coevo.retrieval.dense.stored import StoredVectors; "
        "faiss = load_faiss(); vectors = StoredVectors(faiss, Path(sys.argv[1])); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "write_index(faiss, vectors, sys.argv[2], Path(sys.argv[3]), lambda done, total: None)"
    )
    command = [sys.executable, "-P", "-c", code, str(source), kind, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True)
    last = run.stderr.splitlines()[-1]
    assert last.startswith("OSError: ")
    assert "File too large" in last


def test_an_exact_index_takes_its_room_as_it_is_written(tmp_path: Path, small_blocks: None) -> None:
    """A mapped file would only promise the space, and a full disk would then kill the process."""
    source, sizes = ready(tmp_path / "hnsw.index", made_vectors(), "HNSW8,Flat"), []

    def look(done: int, total: int) -> None:
        sizes.append((tmp_path / "out" / "vectors.tmp").stat().st_size)

    _, file = convert(source, "Flat", tmp_path / "out", look)
    assert sizes[0] < 4 * DIMENSION * COUNT / 2
    np.save(tmp_path / "same.npy", made_vectors())
    assert file.read_bytes() == (tmp_path / "same.npy").read_bytes()
