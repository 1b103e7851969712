from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.passages import passages, queries, write_corpus
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.retrieval.corpus import Corpus, write_offsets
from prompt_coevo.retrieval.dense import embeddings, encoders
from prompt_coevo.retrieval.dense.build import choose_type
from prompt_coevo.retrieval.dense.encoder_recipes import EncoderError
from prompt_coevo.retrieval.dense.faiss_package import (
    FaissConflictError,
    batch_by_blas,
    load_faiss,
)
from prompt_coevo.retrieval.dense.index import DenseIndex, build_dense
from prompt_coevo.retrieval.errors import IndexFileError, RetrieverError
from prompt_coevo.retrieval.shards import Joined, merged

COUNT = 300
TYPES = ["Flat", "SQfp16", "HNSW32,SQ8", "IVF,SQ8"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("world")
    checkpoint = save_tiny_encoder(
        folder / "encoder", (passage["contents"] for passage in passages(COUNT)), dimension=256
    )
    corpus = open_corpus(write_corpus(folder / "corpus.jsonl", COUNT))
    name = f"e5:{checkpoint}"
    return SimpleNamespace(
        folder=folder,
        corpus=corpus,
        encoder=name,
        loaded=encoders.load(name),
        checkpoint=checkpoint,
    )


@pytest.fixture(autouse=True)
def few_threads() -> Iterator[None]:
    torch, faiss = pytest.importorskip("torch"), pytest.importorskip("faiss")
    before = torch.get_num_threads(), faiss.omp_get_max_threads()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    faiss.omp_set_num_threads(before[1])


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "CHUNK_ROWS", 64)


def open_corpus(path: Path) -> Corpus:
    offsets = path.with_suffix(".offsets.npy")
    write_offsets(path, offsets)
    return Corpus.open(path, offsets)


def opened(world: Any, folder: Path, **asked: Any) -> DenseIndex:
    rows = asked.get("rows", range(COUNT))
    details = build_dense(world.corpus, folder, encoder=world.encoder, **asked)
    return DenseIndex.open(folder, world.corpus, json.loads(json.dumps(details)), rows)


def found(index: DenseIndex, count: int = 60) -> float:
    """Return how often the right passage is among the first three."""
    asked = queries(count, COUNT)
    rankings = index.search_rows([query for query, _ in asked], 3)
    right = [str(row) for _, row in asked]
    hits = [{str(row) for row, _ in ranking} for ranking in rankings]
    return sum(map(lambda one, rows: one in rows, right, hits)) / count


def all_vectors(world: Any) -> Any:
    return world.loaded.encode_passages(
        [world.corpus.passage(row).contents for row in range(COUNT)]
    )


def inner_products(queries: Any, vectors: Any) -> Any:
    """Compute [queries, vectors] pair by pair, so that no CPU's kernels make a difference."""
    return np.array(
        [[math.fsum(query * vector) for vector in vectors] for query in queries.astype(np.float64)]
    ).astype(np.float32)


@pytest.mark.parametrize("kind", TYPES)
def test_the_right_passages_are_found(world: Any, tmp_path: Path, kind: str) -> None:
    index = opened(world, tmp_path, index=kind)
    assert found(index) > 0.8
    index.close()


def test_flat_search_is_exact(world: Any, tmp_path: Path) -> None:
    asked = [query for query, _ in queries(40, COUNT)]
    index = opened(world, tmp_path)
    for batch in (asked, asked[:1], asked[:3]):
        scores = inner_products(world.loaded.encode_queries(batch), all_vectors(world))
        for row, ranking in enumerate(index.search_rows(batch, 5)):
            best = np.argsort(-scores[row], kind="stable")[:5]
            assert [passage for passage, _ in ranking] == best.tolist()
            assert [score for _, score in ranking] == scores[row][best].tolist()


@pytest.mark.parametrize("kind", TYPES)
def test_more_passages_than_there_are_cannot_be_found(
    world: Any, tmp_path: Path, kind: str
) -> None:
    index = opened(world, tmp_path, index=kind, rows=range(5))
    details = json.loads((tmp_path / "finished.json").read_text("utf-8"))["details"]
    index = DenseIndex.open(tmp_path, world.corpus, details, range(5))
    for ranking in index.search_rows(["who was the painter"] * 4, 100):
        assert sorted(row for row, _ in ranking) == [0, 1, 2, 3, 4]
        assert all(abs(score) < 2 for _, score in ranking)


def test_what_faiss_does_not_find_is_no_hit(world: Any) -> None:
    """A search of few lists may return fewer than k rows, padded with -1."""

    class Scarce:
        count, dimension = COUNT, 256

        def search(self, vectors: Any, k: int) -> tuple[Any, Any]:
            return np.array([[0.5, -3e38, 0.9]]), np.array([[7, -1, 3]])

        def close(self) -> None: ...

    index = DenseIndex(world.loaded, Scarce(), range(100, 400))
    assert index.search_rows(["who"], 3) == [[(103, 0.9), (107, 0.5)]]


def test_a_vector_that_there_is_not_is_one_sentence(world: Any) -> None:
    class Damaged:
        count, dimension = 300, 256

        def search(self, vectors: Any, k: int) -> tuple[Any, Any]:
            return np.array([[0.9, 0.5]]), np.array([[3, 300]])

        def close(self) -> None: ...

    index = DenseIndex(world.loaded, Damaged(), range(100, 400))
    with pytest.raises(RetrieverError, match="the vector 300 among 300; build the index again"):
        index.search_rows(["who"], 2)


def write_equal(path: Path, world: Any, counts: dict[int, int]) -> Corpus:
    """Write each of these passages this many times, one after another."""
    rows = [row for row, count in counts.items() for _ in range(count)]
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(rows):
            contents = world.corpus.passage(row).contents
            file.write(json.dumps({"id": str(number), "contents": contents}) + "\n")
    return open_corpus(path)


@pytest.mark.parametrize("kind", ["Flat", "SQfp16", "IVF,SQ8"])
def test_of_equal_passages_the_first_comes_first(world: Any, tmp_path: Path, kind: str) -> None:
    """The better passages come last and push equal ones out of a search that ignores rows."""
    corpus = write_equal(tmp_path / "corpus.jsonl", world, {0: 37, 1: 2})
    details = build_dense(corpus, tmp_path / "index", encoder=world.encoder, index=kind)
    index = DenseIndex.open(tmp_path / "index", corpus, details, range(39))
    alone, other = world.corpus.passage(1).contents, world.corpus.passage(0).contents
    for asked in ([alone], [alone] * 5, [alone, "who", alone]):
        for query, ranking in zip(asked, index.search_rows(asked, 4), strict=True):
            if query == alone:
                assert [row for row, _ in ranking] == [37, 38, 0, 1]
    assert [[row for row, _ in found] for found in index.search_rows([other] * 5, 4)] == [
        [0, 1, 2, 3]
    ] * 5


def test_of_equal_passages_in_several_shards_the_first_comes_first(
    world: Any, tmp_path: Path
) -> None:
    corpus = write_equal(tmp_path / "corpus.jsonl", world, {0: 20, 1: 2, 2: 20})
    shards = []
    for rows in (range(21, 42), range(5), range(5, 21)):
        folder = tmp_path / str(rows.start)
        details = build_dense(corpus, folder, encoder=world.encoder, rows=rows)
        shards.append(DenseIndex.open(folder, corpus, details, rows))
    query = world.corpus.passage(1).contents
    for ranking in Joined(shards).search_rows([query] * 3, 2):
        assert [row for row, _ in ranking] == [20, 21]
    query = world.corpus.passage(0).contents
    for ranking in Joined(shards).search_rows([query] * 3, 7):
        assert [row for row, _ in ranking] == list(range(7))


def test_shards_together_find_what_the_whole_finds(
    world: Any, tmp_path: Path, small_chunks: None
) -> None:
    asked = [query for query, _ in queries(30, COUNT)]
    whole = opened(world, tmp_path / "whole").search_rows(asked, 5)
    parts = [range(70), range(70, 71), range(71, COUNT)]
    shards = [opened(world, tmp_path / str(part.start), rows=part) for part in parts]
    every = zip(*(shard.search_rows(asked, 5) for shard in shards), strict=True)
    for ranking, rankings in zip(whole, every, strict=True):
        hits = merged(rankings, 5)
        assert hits == ranking
    files = [np.load(tmp_path / str(part.start) / "vectors.npy") for part in parts]
    assert (np.concatenate(files) == np.load(tmp_path / "whole" / "vectors.npy")).all()


def test_shards_of_half_precision_together_find_what_the_whole_finds(
    world: Any, tmp_path: Path, small_chunks: None
) -> None:
    asked = [query for query, _ in queries(30, COUNT)]
    whole = opened(world, tmp_path / "whole", index="SQfp16").search_rows(asked, 5)
    parts = [range(70), range(70, 71), range(71, COUNT)]
    shards = [
        opened(world, tmp_path / str(part.start), rows=part, index="SQfp16") for part in parts
    ]
    assert Joined(shards).search_rows(asked, 5) == whole


class Stopped(Exception):
    pass


def stop_at(rows: int) -> Any:
    def progress(done: int, total: int) -> None:
        if done >= rows:
            raise Stopped

    return progress


def count_encoded(world: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []
    encode = world.loaded.encode_passages

    def counting(texts: Any) -> Any:
        counts.append(len(texts))
        return encode(texts)

    monkeypatch.setattr(world.loaded, "encode_passages", counting)
    return counts


@pytest.mark.parametrize("stopped_after", [64, 250, COUNT, COUNT + 1, 2 * COUNT])
def test_a_stopped_build_goes_on_and_ends_the_same(
    world: Any,
    tmp_path: Path,
    small_chunks: None,
    monkeypatch: pytest.MonkeyPatch,
    stopped_after: int,
) -> None:
    build_dense(world.corpus, tmp_path / "at once", encoder=world.encoder)
    target = tmp_path / "stopped"
    counts = count_encoded(world, monkeypatch)
    with pytest.raises(Stopped):
        build_dense(world.corpus, target, encoder=world.encoder, progress=stop_at(stopped_after))
    details = build_dense(world.corpus, target, encoder=world.encoder)
    assert sum(counts) == COUNT
    same = [folder / "vectors.npy" for folder in (target, tmp_path / "at once")]
    assert same[0].read_bytes() == same[1].read_bytes()
    assert sorted(path.name for path in target.iterdir()) == ["finished.json", "vectors.npy"]

    assert build_dense(world.corpus, target, encoder=world.encoder) == details
    assert sum(counts) == COUNT


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from prompt_coevo.retrieval.dense import embeddings
from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.dense.index import build_dense
embeddings.CHUNK_ROWS = 64
corpus, offsets, folder, encoder = sys.argv[1:]
kill = lambda done, total: done >= 128 and os.kill(os.getpid(), signal.SIGKILL)
build_dense(Corpus.open(Path(corpus), Path(offsets)), Path(folder), encoder=encoder, progress=kill)
"""


def test_a_killed_build_goes_on(
    world: Any, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.corpus.path
    command = [path, path.with_suffix(".offsets.npy"), tmp_path / "killed", world.encoder]
    run = subprocess.run(
        [sys.executable, "-P", "-c", KILLED, *map(str, command)], env=dict(os.environ)
    )
    assert run.returncode == -signal.SIGKILL
    counts = count_encoded(world, monkeypatch)
    build_dense(world.corpus, tmp_path / "killed", encoder=world.encoder)
    assert sum(counts) == COUNT - 128
    build_dense(world.corpus, tmp_path / "at once", encoder=world.encoder)
    both = [tmp_path / name / "vectors.npy" for name in ("killed", "at once")]
    assert both[0].read_bytes() == both[1].read_bytes()


def test_chunks_of_something_else_are_not_used(
    world: Any, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "index"
    with pytest.raises(Stopped):
        build_dense(world.corpus, target, encoder=world.encoder, progress=stop_at(200))
    kept = {path.name for path in (target / "embeddings").iterdir()}

    other = save_tiny_encoder(tmp_path / "other", ["some words"], dimension=256)
    for encoder in (f"e5:{other}", f"bge:{world.checkpoint}"):  # other weights, other recipe
        with pytest.raises(Stopped):
            build_dense(world.corpus, target, encoder=encoder, progress=stop_at(200))
    changed = open_corpus(write_corpus(tmp_path / "changed.jsonl", COUNT, seed=1))
    with pytest.raises(Stopped):
        build_dense(changed, target, encoder=world.encoder, progress=stop_at(200))
    assert len(list((target / "embeddings").iterdir())) == 4 * len(kept)

    cut = target / "embeddings" / min(kept)
    cut.write_bytes(cut.read_bytes()[:1000])
    counts = count_encoded(world, monkeypatch)
    build_dense(world.corpus, target, encoder=world.encoder)
    assert counts == [64, COUNT - 256]


def test_a_finished_index_of_another_request_is_built_again(world: Any, tmp_path: Path) -> None:
    first = build_dense(world.corpus, tmp_path, encoder=world.encoder)
    second = build_dense(world.corpus, tmp_path, encoder=f"bge:{world.checkpoint}")
    assert first["encoder"]["recipe"] != second["encoder"]["recipe"]
    assert build_dense(world.corpus, tmp_path, encoder=world.encoder, index="SQfp16")["index"] == (
        "SQfp16"
    )


def test_progress_counts_every_row_twice(world: Any, tmp_path: Path, small_chunks: None) -> None:
    seen: list[tuple[int, int]] = []
    build_dense(
        world.corpus,
        tmp_path,
        encoder=world.encoder,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (2 * COUNT, 2 * COUNT)


@pytest.mark.parametrize(
    ("asked", "count", "gpu_bytes", "kind"),
    [
        ("auto", 1_000_000, (), "Flat"),
        ("auto", 1_000_001, (), "HNSW32,SQ8"),
        ("auto", 21_000_000, (40 << 30,), "SQfp16"),
        ("auto", 21_000_000, (24 << 30,), "IVF18330,SQ8"),
        ("auto", 21_000_000, (24 << 30, 24 << 30), "SQfp16"),
        ("auto", 21_000_000, (24 << 30, 8 << 30), "IVF18330,SQ8"),
        ("IVF,SQ8", 100_000, (), "IVF1265,SQ8"),
        ("IVF,Flat", 30, (), "IVF1,Flat"),
        ("IVF77,SQ8", 100_000, (), "IVF77,SQ8"),
        ("SQfp16", 5, (), "SQfp16"),
    ],
)
def test_types(asked: str, count: int, gpu_bytes: tuple[int, ...], kind: str) -> None:
    assert choose_type(asked, count, count, 768, gpu_bytes) == kind


def test_a_small_shard_of_a_large_corpus_has_the_type_of_the_whole_and_lists_of_its_own() -> None:
    assert choose_type("auto", 2_000_000, 1000, 768) == "HNSW32,SQ8"
    assert choose_type("IVF,SQ8", 2_000_000, 1000, 768) == "IVF25,SQ8"


def test_an_unknown_type_is_refused_before_anything_is_embedded(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = count_encoded(world, monkeypatch)
    with pytest.raises(IndexFileError, match="faiss knows no index 'HNSW,flat' for vectors of 256"):
        build_dense(world.corpus, tmp_path, encoder=world.encoder, index="HNSW,flat")
    assert not counts


def test_another_encoder_is_refused(world: Any, tmp_path: Path) -> None:
    place = shutil.copytree(world.checkpoint, tmp_path / "encoder")
    details = build_dense(world.corpus, tmp_path / "index", encoder=f"e5:{place}")
    index = (tmp_path / "index", world.corpus, details, range(COUNT))
    place.rename(tmp_path / "elsewhere")
    with pytest.raises(EncoderError, match="there is no folder"):
        DenseIndex.open(*index)
    save_tiny_encoder(place, ["some words"], dimension=256)
    with pytest.raises(IndexFileError, match="was built with another encoder than e5:"):
        DenseIndex.open(*index)
    shutil.rmtree(place)
    (tmp_path / "elsewhere").rename(place)
    assert found(DenseIndex.open(*index)) > 0.8


def test_an_index_of_other_rows_is_refused(world: Any, tmp_path: Path) -> None:
    details = build_dense(world.corpus, tmp_path, encoder=world.encoder, rows=range(10, 50))
    with pytest.raises(IndexFileError, match="has 40 vectors of 256 numbers, but 41 of 256 belong"):
        DenseIndex.open(tmp_path, world.corpus, details, range(10, 51))
    with pytest.raises(IndexFileError, match="ends at row 320 of a corpus that has 300"):
        DenseIndex.open(tmp_path, world.corpus, details, range(280, 320))


@pytest.mark.parametrize("kind", ["Flat", "SQfp16"])
def test_a_truncated_index_is_refused(world: Any, tmp_path: Path, kind: str) -> None:
    details = build_dense(world.corpus, tmp_path, encoder=world.encoder, index=kind)
    path = tmp_path / details["file"]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(IndexFileError, match=r"cannot (be )?read.*build the index again"):
        DenseIndex.open(tmp_path, world.corpus, details, range(COUNT))


def write_ready(
    path: Path, vectors: Any, kind: str = "Flat", metric: str = "INNER_PRODUCT"
) -> Path:
    """Write an index as Search-R1's builder does: `faiss.write_index` of an index by its name."""
    faiss = load_faiss()
    index = faiss.index_factory(vectors.shape[1], kind, getattr(faiss, f"METRIC_{metric}"))
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, str(path))
    return path


@pytest.mark.parametrize("kind", ["Flat", "HNSW64,Flat", "SQ8", "IVF8,Flat"])
def test_a_ready_index_is_used_as_it_is(world: Any, tmp_path: Path, kind: str) -> None:
    ready = write_ready(tmp_path / "e5.index", all_vectors(world), kind)
    index = opened(world, tmp_path / "index", faiss_file=ready)
    assert found(index) > 0.8
    assert (tmp_path / "index" / "vectors.faiss").samefile(ready)
    again = opened(world, tmp_path / "index", faiss_file=ready)
    assert found(again) == found(index)


@pytest.mark.parametrize("kind", ["SQfp16", "HNSW32,SQ8", "IVF,SQ8"])
def test_a_ready_index_becomes_another_type_without_embedding(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    ready = write_ready(tmp_path / "e5.index", all_vectors(world))
    expected = opened(world, tmp_path / "embedded", index=kind)
    counts = count_encoded(world, monkeypatch)
    index = opened(world, tmp_path / "index", faiss_file=ready, index=kind)
    assert counts == [8], "those that are compared"
    details = json.loads((tmp_path / "index" / "finished.json").read_text("utf-8"))["details"]
    assert details["index"] == choose_type(kind, COUNT, COUNT, 256)
    assert not (tmp_path / "index" / "vectors.faiss").samefile(ready)
    asked = [query for query, _ in queries(40, COUNT)]
    assert index.search_rows(asked, 3) == expected.search_rows(asked, 3)
    before = (tmp_path / "index" / "vectors.faiss").stat().st_mtime_ns
    opened(world, tmp_path / "index", faiss_file=ready, index=kind)
    assert (tmp_path / "index" / "vectors.faiss").stat().st_mtime_ns == before


def test_a_flat_index_asked_for_as_flat_is_linked(world: Any, tmp_path: Path) -> None:
    ready = write_ready(tmp_path / "e5.index", all_vectors(world))
    opened(world, tmp_path / "index", faiss_file=ready, index="Flat")
    assert (tmp_path / "index" / "vectors.faiss").samefile(ready)
    graph = write_ready(tmp_path / "graph.index", all_vectors(world), "HNSW32,Flat")
    opened(world, tmp_path / "flat", faiss_file=graph, index="Flat")
    assert (np.load(tmp_path / "flat" / "vectors.npy") == all_vectors(world)).all()


def test_what_cannot_be_converted_is_refused(world: Any, tmp_path: Path) -> None:
    rough = write_ready(tmp_path / "pq.index", all_vectors(world), "SQ8")
    with pytest.raises(IndexFileError, match=r"cannot become HNSW32,SQ8: its type, IndexScalar"):
        opened(world, tmp_path / "index", faiss_file=rough, index="HNSW32,SQ8")
    with pytest.raises(IndexFileError, match="faiss knows no index 'HNSW,flat'"):
        opened(world, tmp_path / "index", faiss_file=rough, index="HNSW,flat")
    assert not list((tmp_path / "index").iterdir())


@pytest.mark.parametrize("index", ["auto", "Flat", "HNSW32,SQ8"])
@pytest.mark.parametrize("row", [0, 17, COUNT - 1])
def test_a_ready_index_with_a_vector_that_is_no_number_is_refused(
    world: Any, tmp_path: Path, index: str, row: int
) -> None:
    vectors = all_vectors(world)
    vectors[row, 3] = np.nan
    ready = write_ready(tmp_path / "e5.index", vectors)
    with pytest.raises(IndexFileError, match=rf"vector {row} of the index .* not finite"):
        opened(world, tmp_path / "index", faiss_file=ready, index=index)
    assert not list((tmp_path / "index").glob("vectors*"))


def test_a_file_on_another_disk_is_linked_by_name(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    ready = write_ready(tmp_path / "e5.index", all_vectors(world))
    index = opened(world, tmp_path / "index", faiss_file=ready)
    assert (tmp_path / "index" / "vectors.faiss").is_symlink()
    assert found(index) > 0.8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda vectors: vectors[:, :128], r"of 128 numbers, but .* the encoder e5:.* makes 256"),
        (lambda vectors: vectors[:-1], "has 299 vectors of .*, but there are 300 passages"),
        (lambda vectors: vectors[::-1], "was not made from this corpus with the encoder"),
        (lambda vectors: vectors[:, ::-1], "was not made from this corpus with the encoder"),
    ],
)
@pytest.mark.parametrize("index", ["auto", "HNSW32,SQ8"])
def test_what_does_not_fit_is_refused(
    world: Any, tmp_path: Path, change: Any, message: str, index: str
) -> None:
    vectors = np.ascontiguousarray(change(all_vectors(world)))
    ready = write_ready(tmp_path / "e5.index", vectors)
    with pytest.raises(IndexFileError, match=message):
        opened(world, tmp_path / "index", faiss_file=ready, index=index)
    assert not list((tmp_path / "index").iterdir())


def test_distances_and_own_ids_are_refused(world: Any, tmp_path: Path) -> None:
    by_distance = write_ready(tmp_path / "l2.index", all_vectors(world), metric="L2")
    with pytest.raises(IndexFileError, match="compares by distance"):
        opened(world, tmp_path / "index", faiss_file=by_distance)
    faiss = load_faiss()
    numbered = faiss.IndexIDMap(faiss.IndexFlatIP(256))
    numbered.add_with_ids(all_vectors(world), np.arange(COUNT) + 1000)
    faiss.write_index(numbered, str(tmp_path / "ids.index"))
    with pytest.raises(IndexFileError, match="uses its own ids"):
        opened(world, tmp_path / "index", faiss_file=tmp_path / "ids.index")


def test_what_is_no_index_is_refused(world: Any, tmp_path: Path) -> None:
    with pytest.raises(IndexFileError, match="there is no index file"):
        opened(world, tmp_path / "index", faiss_file=tmp_path / "none")
    (tmp_path / "text").write_text("no index at all", "utf-8")
    with pytest.raises(IndexFileError, match=r"faiss cannot read the index .*text"):
        opened(world, tmp_path / "index", faiss_file=tmp_path / "text")


def test_faiss_for_cpu_and_gpu_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_faiss()
    for name in ("faiss_cpu", "faiss_gpu"):
        folder = tmp_path / f"{name}-1.15.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.15.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        FaissConflictError,
        match=r"faiss-cpu and faiss-gpu are both installed .* pip uninstall faiss-cpu faiss-gpu",
    ):
        load_faiss()


def test_batches_leave_faiss_as_it_was(world: Any, tmp_path: Path) -> None:
    faiss = load_faiss()
    before = faiss.cvar.distance_compute_blas_threshold
    with batch_by_blas(faiss):
        assert faiss.cvar.distance_compute_blas_threshold == min(before, 800)
    with pytest.raises(Stopped), batch_by_blas(faiss):
        raise Stopped
    assert faiss.cvar.distance_compute_blas_threshold == before
    opened(world, tmp_path).search_rows(["who", "where"], 3)
    assert faiss.cvar.distance_compute_blas_threshold == before
