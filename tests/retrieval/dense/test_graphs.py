"""Check how well a graph is built and searched: a larger one needs more candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prompt_coevo.retrieval.dense import search
from prompt_coevo.retrieval.dense.build import CANDIDATES_OF_A_BUILD, new_index
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.dense.index import open_vectors
from prompt_coevo.retrieval.fusion import FUSED_DEPTH

COUNT, DIMENSION = 40_000, 4

pytestmark = pytest.mark.usefixtures("one_thread_of_faiss")


@pytest.fixture(scope="module")
def graph() -> Any:
    faiss = load_faiss()
    made = faiss.IndexHNSWFlat(DIMENSION, 8, faiss.METRIC_INNER_PRODUCT)
    vectors = np.random.default_rng(0).normal(size=(COUNT, DIMENSION)).astype(np.float32)
    made.add(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return made


def opened(graph: Any, path: Path, kept: int = 16) -> Any:
    graph.hnsw.efSearch = kept
    load_faiss().write_index(graph, str(path))
    return open_vectors(load_faiss(), path)


@pytest.mark.parametrize(
    ("count", "kept"), [(1, 64), (100_000, 64), (300_000, 68), (1_000_000, 125), (21_015_324, 573)]
)
def test_candidates_grow_with_the_graph(count: int, kept: int) -> None:
    assert search.candidates(count) == kept


def test_an_opened_graph_keeps_them(
    graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = opened(graph, tmp_path / "small.faiss")
    assert small.index.hnsw.efSearch == small.most == search.LEAST_CANDIDATES
    monkeypatch.setattr(search, "LEAST_CANDIDATES", 1)
    large = opened(graph, tmp_path / "large.faiss")
    assert large.index.hnsw.efSearch == large.most == search.candidates(COUNT) == 25


def test_a_graph_that_was_written_with_more_keeps_those(graph: Any, tmp_path: Path) -> None:
    index = opened(graph, tmp_path / "graph.faiss", kept=300)
    assert index.index.hnsw.efSearch == index.most == 300


def test_many_hits_are_found_as_well_as_few(tmp_path: Path) -> None:
    """Rank fusion asks for more hits than a search of a graph keeps."""
    random, dimension = np.random.default_rng(0), 32
    vectors, queries = (random.normal(size=(n, dimension)).astype(np.float32) for n in (5000, 64))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    made = load_faiss().IndexHNSWFlat(dimension, 16, load_faiss().METRIC_INNER_PRODUCT)
    made.add(vectors)
    index = opened(made, tmp_path / "graph.faiss")
    exact = np.argsort(-(queries @ vectors.T), axis=1)
    for wanted in (10, 32, 33, 60, 65, FUSED_DEPTH):
        found = index.search(queries, wanted)[1]
        pairs = zip(found, exact[:, :wanted], strict=True)
        assert np.mean([np.isin(numbers, right).mean() for numbers, right in pairs]) > 0.95, wanted


@pytest.mark.parametrize("kind", ["HNSW32,SQ8", "HNSW16,Flat"])
def test_a_graph_is_made_with_more_candidates_than_faiss_would(kind: str) -> None:
    assert new_index(load_faiss(), DIMENSION, kind).hnsw.efConstruction == CANDIDATES_OF_A_BUILD


def test_most_of_what_is_near_is_found(graph: Any, tmp_path: Path) -> None:
    asked = np.random.default_rng(1).normal(size=(200, DIMENSION)).astype(np.float32)
    _, wanted = graph.storage.search(asked, 3)
    _, found = opened(graph, tmp_path / "graph.faiss").search(asked, 3)
    shared = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), wanted.tolist(), strict=True))
    assert shared / wanted.size > 0.95
